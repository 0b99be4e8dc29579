import { expect, it } from 'vitest';
import { instead } from './instead';
import { decode, encode } from './url';

const listed = ' /api/v1/labels?names=service and tailscope query services list those there are';

it.each([
  ['/services/cat/sla?range=1h', `there is no service "cat"; did you mean "cart"?${listed}`, '/services/cart/sla?range=1h'],
  ['/compare?l.service==cat&a=1/2&b=2/3', `there is no service "cat"; did you mean "cart"?${listed}`, '/compare?l.service==cart&a=1/2&b=2/3'],
  ['/services/cart?l.tenant==wale&l.tenant==acme', 'there is no tenant "wale" of cart; did you mean "whale"? x', '/services/cart?l.tenant==whale&l.tenant==acme'],
  ['/scaling?service=cat', `there is no service "cat"; did you mean "cart"?${listed}`, '/scaling?service=cart'],
  // Nothing is near, nothing of the view has the name, or the message says another thing.
  ['/services/cat', 'there is no service "cat"; write one of a, b; x', undefined],
  ['/services/dog', `there is no service "cat"; did you mean "cart"?${listed}`, undefined],
  ['/services/cat', 'no answer from here', undefined],
])('%s', (at, message, to) => {
  const [path, search = ''] = at.split('?');
  const out = instead(message, decode(path, search && `?${search}`));
  expect(out && encode(out.view)).toBe(to);
});
