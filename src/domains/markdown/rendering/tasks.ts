import type { StateCore, Token } from 'markdown-it';

const TASK = /^\[([ xX])\](?=\s|$)/;

/** Makes checkboxes of `[ ]` and `[x]` at the start of list items. */
export const addTasks = (state: StateCore): void => {
  const { tokens } = state;
  const lists: Token[] = [];
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'bullet_list_open' || token.type === 'ordered_list_open') lists.push(token);
    if (token.type === 'bullet_list_close' || token.type === 'ordered_list_close') lists.pop();
    const item = tokens[index - 2];
    const list = lists.at(-1);
    if (token.type !== 'inline' || item?.type !== 'list_item_open' || !list) continue;
    const first = token.children?.[0];
    // Text that was split at brackets is joined again by now.
    const mark = first?.type === 'text' ? TASK.exec(first.content) : null;
    if (!first || !mark || !token.children) continue;
    const checkbox = new state.Token('html_inline', '', 0);
    checkbox.content = `<input type="checkbox" class="task-list-item-checkbox" disabled${mark[1] === ' ' ? '' : ' checked'}>`;
    first.content = first.content.slice(mark[0].length);
    token.children.unshift(checkbox);
    item.attrSet('class', 'task-list-item');
    list.attrSet('class', 'task-list');
  }
};
