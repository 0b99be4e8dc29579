// Pages of other sites: what they post, read, rebind and frame is refused and
// changes nothing, and the page itself keeps to its own policy.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test, type Page } from '@playwright/test';
import config from './playwright.config';
import { known, openService, servicePath } from './page';

// evil.test is this machine, as a name that was pointed here would be. What newer
// browsers refuse by themselves of requests to this machine is off: others do not.
const launch = config.use!.launchOptions!;
test.use({
  launchOptions: {
    ...launch,
    args: [...launch.args!, '--host-resolver-rules=MAP evil.test 127.0.0.1', '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessRespectPreflightResults'],
  },
});

const target = config.use!.baseURL!;
let site: Server;
let evil: string; // the other site

test.beforeAll(async () => {
  site = createServer((_, res) => res.setHeader('Content-Type', 'text/html').end('<!doctype html><link rel="icon" href="data:,"><title>evil</title>'));
  await new Promise<void>((done) => site.listen(0, '127.0.0.1', done));
  evil = `http://evil.test:${(site.address() as AddressInfo).port}`;
});
test.afterAll(() => new Promise((done) => site.close(done)));

/** What a page of another site could have changed, or made the server work on. */
async function traces(page: Page): Promise<unknown> {
  const read = async (path: string) => (await page.request.get(target + path)).text();
  const metrics = await read('/metrics');
  return {
    // without their verdicts, which come by themselves
    marks: JSON.parse(await read('/api/v1/marks')).marks.map((m: { id: string; name: string }) => [m.id, m.name]),
    targets: await read('/api/v1/apdex-targets'),
    // asked of Prometheus' API at all, and spans by the service's name
    queries: metrics.match(/^tailscope_http_requests_total\{.*prometheus_.*/gm),
    services: (await read('/api/v1/services')).includes('evil'),
  };
}

/** The statuses with which the server answered the page meanwhile, those too that the browser kept from it. */
async function answers(page: Page, act: () => Promise<void>): Promise<number[]> {
  const seen: number[] = [];
  const devtools = await page.context().newCDPSession(page);
  const asked = new Map<string, string>();
  devtools.on('Network.requestWillBeSent', (r) => void asked.set(r.requestId, r.request.url));
  devtools.on('Network.responseReceivedExtraInfo', (r) => {
    if (!asked.get(r.requestId)?.startsWith(evil)) seen.push(r.statusCode); // not what that site itself serves
  });
  await devtools.send('Network.enable');
  await act();
  await devtools.detach();
  return seen;
}

/** Everything a script can try at base; the texts of what it could read come back. */
async function attack(page: Page, base: string, otlp: string): Promise<string[]> {
  return page.evaluate(async ({ base, otlp }) => {
    const span = '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"evil"}}]},"scopeSpans":[{"spans":[{"name":"x","kind":2,"startTimeUnixNano":"' +
      `${Date.now() - 1000}000000","endTimeUnixNano":"${Date.now()}000000"}]}]}]}`;
    const mark = '{"name":"evil"}';
    const json = { 'Content-Type': 'application/json' };
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const tries: [string, RequestInit][] = [
      [`${base}/api/v1/marks`, { method: 'POST', body: mark }],
      [`${base}/api/v1/marks`, { method: 'POST', body: mark, mode: 'no-cors' }],
      [`${base}/api/v1/marks`, { method: 'POST', body: mark, mode: 'no-cors', referrerPolicy: 'no-referrer' }],
      [`${base}/api/v1/marks`, { method: 'POST', body: mark, headers: json }],
      [`${base}/api/v1/marks`, { method: 'GET' }],
      [`${base}/api/v1/apdex-targets`, { method: 'PUT', body: '{}', headers: json }],
      [`${base}/api/v1/import/access-log?service=evil`, { method: 'POST', body: 'x', mode: 'no-cors' }],
      [`${base}/prometheus/api/v1/query`, { method: 'POST', body: 'query=1', headers: form }],
      [`${base}/prometheus/api/v1/query`, { method: 'POST', body: 'query=1', headers: form, mode: 'no-cors' }],
      [`${base}/prometheus/api/v1/query?query=1`, { mode: 'no-cors' }],
      [`${base}/metrics`, {}],
      [`${otlp}/v1/traces`, { method: 'POST', body: span, headers: json }],
      [`${otlp}/v1/traces`, { method: 'POST', body: span, mode: 'no-cors' }],
    ];
    const read: string[] = [];
    for (const [url, init] of tries) {
      try {
        const res = await fetch(url, init);
        read.push(`${res.type} ${res.status} ${(await res.text()).slice(0, 80)}`);
      } catch (e) {
        read.push(`failed: ${e}`);
      }
    }
    navigator.sendBeacon(`${base}/api/v1/marks`, mark);
    const image = new Image();
    image.src = `${base}/prometheus/api/v1/query?query=2`;
    await new Promise((done) => (image.onerror = image.onload = done));
    return read;
  }, { base, otlp });
}

/** The status that a form of the page's is answered with, sent into a window of its own. */
async function submit(page: Page, action: string, enctype: string, name: string, value: string): Promise<number> {
  const answer = page.context().waitForEvent('response', (r) => r.url() === action);
  const popup = page.waitForEvent('popup');
  await page.evaluate(([action, enctype, name, value]) => {
    const form = document.createElement('form');
    Object.assign(form, { method: 'post', target: '_blank', action, enctype });
    form.append(Object.assign(document.createElement('input'), { name, value }));
    document.body.append(form);
    form.submit();
  }, [action, enctype, name, value]);
  const status = (await answer).status();
  await (await popup).close();
  return status;
}

const otlpAddress = async (page: Page) => `http://${(await (await page.request.get(`${target}/api/v1/status`)).json()).otlp_http}`;

test('a page of another site can neither post nor read', async ({ page }) => {
  const otlp = await otlpAddress(page);
  const before = await traces(page);
  await page.goto(evil);
  let read: string[] = [];
  const seen = await answers(page, async () => {
    read = await attack(page, target, otlp);
  });
  for (const r of read) expect(r).toMatch(/^(failed|opaque 0 $)/); // nothing can be read
  expect(seen.length).toBeGreaterThan(12); // and it is the server that refused, not the browser
  for (const status of seen) expect(status).toBe(403);
  expect(await submit(page, `${target}/api/v1/marks`, 'text/plain', '{"name":"evil","description":"', '"}')).toBe(403);
  expect(await submit(page, `${target}/prometheus/api/v1/query`, 'application/x-www-form-urlencoded', 'query', '1')).toBe(403);
  expect(await traces(page)).toEqual(before);
});

test('a name that was pointed here is refused', async ({ page }) => {
  const rebound = target.replace('127.0.0.1', 'evil.test');
  const otlp = (await otlpAddress(page)).replace('127.0.0.1', 'evil.test');
  const before = await traces(page);
  const answer = await page.goto(rebound);
  expect(answer?.status()).toBe(421);
  expect(await answer?.text()).toContain('host "evil.test" is not one of this server\'s names: add it to allowed_hosts');

  // The page was there before its name was pointed here, on the same port.
  await page.route(`${rebound}/`, (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>evil</title>' }));
  await page.goto(`${rebound}/`);
  await expect(page).toHaveTitle('evil');
  let read: string[] = [];
  const seen = await answers(page, async () => {
    read = await attack(page, rebound, otlp);
  });
  // It may read that it is refused, and no more.
  for (const r of read) expect(r).toMatch(/^(failed|opaque 0 |basic 421 )/);
  expect(read.filter((r) => r.includes('basic 421')).length).toBeGreaterThan(6);
  expect(seen.length).toBeGreaterThan(12);
  for (const status of seen) expect(status).toBe(421);
  expect(await submit(page, `${rebound}/api/v1/marks`, 'text/plain', '{"name":"evil","description":"', '"}')).toBe(421);
  expect(await traces(page)).toEqual(before);
});

test('no other site frames the page', async ({ page }) => {
  for (const address of [target, target.replace('127.0.0.1', 'evil.test'), `${target}/api/v1/marks`]) {
    await page.goto(evil);
    await page.evaluate((src) => {
      const frame = Object.assign(document.createElement('iframe'), { src });
      document.body.append(frame);
      return new Promise((done) => (frame.onload = done));
    }, address);
    await expect.poll(() => page.frames().length).toBe(2);
    await expect.poll(() => page.frames()[1].url(), { message: address }).toMatch(/^chrome-error:/);
    await expect(page.frames()[1].locator('#app')).toHaveCount(0);
  }
});

test('its own page changes things, and breaks no rule of its policy', async ({ page }) => {
  const broken: string[] = [];
  page.on('console', (m) => void (/Content.Security.Policy|blocked/i.test(m.text()) && broken.push(m.text())));
  const s = known();
  const range = `start=${s.start}&end=${s.end}`;
  await openService(page);
  await page.getByTestId('heatmap').focus();
  await page.keyboard.press('ArrowLeft');
  for (const path of [
    '/', `/?${range}`, servicePath('axis=linear'), `/tenants?${range}`, `/families?${range}`, `/marks?${range}`, `/compare?${range}`,
    '/sessions', '/checks', '/simulate', '/scaling', `/services/${s.service}/operations?${range}`, `/services/${s.service}/traces?${range}`,
  ]) {
    await page.goto(path);
    await page.waitForLoadState('networkidle');
    await expect(page.locator('main')).toBeVisible();
  }
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toBeVisible();
  expect(broken).toEqual([]);

  const status = await page.evaluate(async () => {
    const res = await fetch('/api/v1/marks', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"name":"own"}' });
    const { id } = await res.json();
    const gone = await fetch(`/api/v1/marks/${id}`, { method: 'DELETE' });
    return [res.status, gone.status];
  });
  expect(status).toEqual([201, 204]);
});
