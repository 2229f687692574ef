/** Exactly one address that a mail can be sent to, without a name and without anything that could end a header. */
export const MAIL_ADDRESS = /^[^\s@<>,;:"()[\]\\\p{Cc}]+@[^\s@<>,;:"()[\]\\\p{Cc}]+$/u;
