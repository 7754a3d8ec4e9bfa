/** A question before a command is given: what is about to happen, and the word of the button. */
export interface Question {
  readonly title: string;
  readonly text: string;
  readonly yes: string;
  readonly isGrave: boolean;
}

/** A command that somebody wants to give: the message, and what is asked before. */
export interface Wish {
  readonly kind: string;
  readonly body: object;
  readonly question: Question;
}
