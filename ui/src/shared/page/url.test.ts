import { describe, expect, it } from 'vitest';
import { decode, encode, fits, home, misread, moreKeys, type View } from './url';

function trip(v: View): View {
  const u = new URL(encode(v), 'http://x');
  return decode(u.pathname, u.search);
}

describe('encode and decode', () => {
  it('leave defaults out', () => {
    expect(encode(home())).toBe('/');
    expect(encode({ ...home(), page: 'service', name: 'checkout' })).toBe('/services/checkout');
  });

  it('keep everything a view has', () => {
    const v: View = {
      page: 'service',
      name: 'a/b c?d&e%',
      range: { start: 1795150000, end: 1795153600 },
      live: false,
      filters: { tenant: ['acme & sons', 'a=b', ''], kind: [], operation: ['GET /cart/{id}?x=1+2'] },
      axis: 'linear',
      lo: 0.001,
      cap: 0.2,
      scale: 'log',
      show: ['p50', 'p99'],
      pin: 1795151234,
      at: 0.0447,
      search: 'a b+c',
      sort: '-0.99',
      offset: 50,
      more: { period: ['week'], m: ['process_cpu_seconds{a="b c"}', 'x'] },
    };
    expect(trip(v)).toEqual(v);
  });

  it('round-trip every small change from the default', () => {
    const changes: Partial<View>[] = [
      { page: 'tenants' }, { page: 'cluster' }, { page: 'families' }, { page: 'family', name: 'http_server_request_duration_seconds' },
      { range: { last: 900 } }, { range: { last: 30 * 86400 } }, { range: { last: 90 } }, { live: false }, { filters: { kind: [] } },
      { filters: { status: [''] } }, { axis: 'linear' }, { cap: 0.2 }, { lo: 1e-5 }, { scale: 'log' }, { show: [] }, { show: ['yesterday'] },
      { pin: 1795151234, at: 0.2 }, { search: 'x' }, { sort: 'name' }, { offset: 100 },
      { page: 'breakdown', name: 'a/b', more: { unit: ['share'], low: ['0.2'], above: ['0.99'] } }, { page: 'operations', name: 'breakdown', more: { open: ['db'] } },
      { page: 'database', name: 'x' }, { page: 'slow', name: 'x', more: { why: ['failed'], min: ['0.2'] } }, { page: 'sla', name: 'x', more: { period: ['week'], tz: ['Europe/Berlin'] } },
      { page: 'trace', name: '4bf92f3577b34da6a3ce929d0e0e4736', more: { span: ['7'] } }, { page: 'mark', name: 'a/b', more: { mark: ['0/1'], around: ['1h'] } }, { page: 'external', name: 'x', more: { open: ['GET a&b'] } },
    ];
    for (const c of changes) {
      const v = { ...home(), ...c };
      expect(trip(v)).toEqual(v);
    }
  });

  it('are stable: the same view has one address', () => {
    const a = encode({ ...home(), filters: { b: ['1'], a: ['2'] } });
    const b = encode({ ...home(), filters: { a: ['2'], b: ['1'] } });
    expect(a).toBe(b);
  });

  it('has each key once, or an address would grow with every step', () => {
    expect(new Set(moreKeys).size).toBe(moreKeys.length);
    expect(encode({ ...home(), page: 'session', name: 'x', more: { tail: ['0'] } })).toBe('/sessions/x?tail=0');
  });

  it('read an address a person might type', () => {
    expect(decode('/services/checkout', '?range=7d&cap=0.2&l.tenant==acme').filters).toEqual({ tenant: ['acme'] });
    expect(decode('/services/checkout/', '').name).toBe('checkout');
    expect(decode('/services/checkout/breakdown/', '?unit=share&nonsense=1')).toMatchObject({ page: 'breakdown', name: 'checkout', more: { unit: ['share'] } });
    expect(decode('/services/breakdown', '')).toMatchObject({ page: 'service', name: 'breakdown' });
  });

  it('fall back to the default for what cannot be understood', () => {
    const d = home();
    expect(decode('/nowhere', '?range=fortnight&cap=-1&lo=x&axis=polar&show=p42&pin=yesterday&offset=-3&start=5')).toEqual({ ...d, show: [] });
    expect(decode('/', '?start=20&end=10').range).toEqual(d.range);
    expect(decode('/services/x', '?lo=2&cap=1').lo).toBeNull();
    expect(decode('/services/%E0%A4%A', '').name).toBe('%E0%A4%A');
  });
});

describe('misread', () => {
  it.each([
    ['/service/shop', '', 'There is no page /service.', '/services/shop'],
    ['/compares', '?by=mark&mark=M', 'There is no page /compares.', '/compare?by=mark&mark=M'],
    ['/zzzzzzzz', '', 'There is no page /zzzzzzzz.', '/'],
    ['/compare', '?service=shop&mark=M', 'The address has service, mark, which this page does not read.', '/compare?l.service==shop&by=mark&mark=M'],
    ['/compare', '?l.service==shop&mark=M', 'The address names a mark without by=mark.', '/compare?l.service==shop&by=mark&mark=M'],
    ['/services/shop', '?environment=production&rnage=1h', 'The address has environment, rnage, which this page does not read.', '/services/shop?range=1h&l.environment==production'],
    ['/', '?start=now-1h&end=now', 'The address has start and end, which this page reads as two Unix times, the earlier first. Without them it shows the last hours.', '/?range=1h'],
    ['/marks', '?start=20&end=10', 'The address has start and end, which this page reads as two Unix times, the earlier first. Without them it shows the last hours.', '/marks'],
    ['/', '?quuxquuxquux=1', 'The address has quuxquuxquux, which this page does not read.', '/'],
  ])('says what of %s%s no page reads', (path, search, text, to) => expect(misread(path, search)).toEqual({ text, to }));

  it.each([['/', ''], ['/services/a%2Fb/external', '?range=1h&l.service==x&sort=p99'], ['/scaling', '?service=shop&operation=GET'], ['/compare', '?l.service==shop&by=mark&mark=M&allow=worse:3%25'], ['/services/shop/marks/m1', ''], ['/traces/abc', '?q=x'], ['/tenants', '?tenant=acme&cohort=large']])(
    'reads all of %s%s', (path, search) => expect(misread(path, search)).toBeUndefined(),
  );
});

it('narrows an unchosen range where requests are shown', () => {
  const narrowed = (path: string) => fits(decode(path, ''));
  expect(['/', '/services/shop', '/services/shop/database', '/tenants'].map(narrowed)).toEqual([true, true, true, true]);
  expect(['/compare', '/sessions', '/checks', '/families/heap_bytes', '/services/shop/sla'].map(narrowed)).toEqual([false, false, false, false, false]);
});
