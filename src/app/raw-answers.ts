const REASONS = {
  400: 'Bad Request',
  408: 'Request Timeout',
  429: 'Too Many Connections',
  431: 'Request Header Fields Too Large',
  503: 'Service Unavailable',
} as const;

/** A complete response for a connection error that no route can handle. It closes the connection. */
export const rawAnswer = (status: keyof typeof REASONS): string => {
  const body = JSON.stringify({ error: `${status} ${REASONS[status]}` });
  const retry = status === 429 || status === 503 ? 'Retry-After: 10\r\n' : '';
  return `HTTP/1.1 ${status} ${REASONS[status]}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${retry}Connection: close\r\n\r\n${body}`;
};
