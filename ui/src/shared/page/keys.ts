/** Whether a key is the browser's, or goes into what is being typed: then it is not a command of the page. */
export const typed = (e: KeyboardEvent): boolean => e.metaKey || e.ctrlKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test((e.target as HTMLElement).tagName);
