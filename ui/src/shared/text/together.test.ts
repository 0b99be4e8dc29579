import { expect, test } from 'vitest';
import { togetherText } from './together';

const text = '2 environments are taken together: production (83 %), staging (17 %); name one: environment="production"';

test('a page offers the choice in place of what to write', () => {
  expect(togetherText([undefined, [], ['slots are long', text]])).toBe('2 environments are taken together: production (83\u00a0%), staging (17\u00a0%)');
  expect(togetherText([['slots are long'], undefined])).toBe('');
});
