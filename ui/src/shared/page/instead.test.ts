import { expect, it } from 'vitest';
import { instead } from './instead';
import { decode, encode } from './url';

const of = (label: string, name: string, ...nearest: string[]) => ({ label, name, nearest, message: '' });

it.each([
  ['/services/cat/sla?range=1h', of('service', 'cat', 'cart'), '/services/cart/sla?range=1h'],
  ['/compare?l.service==cat&a=1/2&b=2/3', of('service', 'cat', 'cart'), '/compare?l.service==cart&a=1/2&b=2/3'],
  ['/services/cart?l.tenant==wale&l.tenant==acme', of('tenant', 'wale', 'whale'), '/services/cart?l.tenant==whale&l.tenant==acme'],
  ['/scaling?service=cat', of('service', 'cat', 'cart'), '/scaling?service=cart'],
  // Nothing is near, nothing of the view has the name, or nothing is said.
  ['/services/cat', of('service', 'cat'), undefined],
  ['/services/dog', of('service', 'cat', 'cart'), undefined],
  ['/services/cat', undefined, undefined],
])('%s', (at, said, to) => {
  const [path, search = ''] = at.split('?');
  const out = instead(said, decode(path, search && `?${search}`));
  expect(out && encode(out.view)).toBe(to);
});
