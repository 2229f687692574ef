/** Why the hub cannot start, and what to do. It is shown to the operator without a stack, and repeats no secret. */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}
