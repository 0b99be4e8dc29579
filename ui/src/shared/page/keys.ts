/** Whether a key is the browser's, or goes into what is being typed: then it is not a command of the page. */
export const typed = (e: KeyboardEvent): boolean => e.metaKey || e.ctrlKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test((e.target as HTMLElement).tagName);

/** Whether a key opens the search: / where it is not typed into a field, Ctrl-K and ⌘K everywhere. */
export const opensSearch = (e: KeyboardEvent): boolean => ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey ? e.key.toLowerCase() === 'k' : e.key === '/' && !typed(e));
