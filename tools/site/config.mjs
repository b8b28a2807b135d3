// VitePress reads docs as it is. This file tells it where the pages are, and how a link of the
// repository becomes a link of the site. build.sh sets FXCCM_ROOT, SITE_BASE and SITE_OUT.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const root = process.env.FXCCM_ROOT
const docs = path.join(root, 'docs')
const out = process.env.SITE_OUT
const repository = 'https://github.com/fxccm/fxccm'

const isExternal = (target) => /^[a-z]+:/.test(target)
const pageAt = (file) => file.replace(/(^|\/)README\.md$/, '$1index.md')

// slugify follows GitHub's rule, so an anchor is the same in the repository and on the site.
const slugify = (title) =>
  title.trim().toLowerCase().replace(/[^\p{L}\p{N}\-_ ]/gu, '').replaceAll(' ', '-')

// siteLink returns the target of a link on the site. A page stays a page; any other file, and
// everything outside docs, is read in the repository.
function siteLink(target, page) {
  if (isExternal(target) || target.startsWith('#')) return target
  const [, name, section] = target.match(/^([^#]*)(#.*)?$/)
  const file = path.join(docs, path.dirname(page), name)
  if (!existsSync(file)) throw new Error(`docs/${page}: ${target} does not exist`)
  const inside = path.relative(docs, file)
  if (!inside.startsWith('..') && file.endsWith('.md')) return '/' + pageAt(inside) + (section ?? '')
  const kind = statSync(file).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${path.relative(root, file)}${section ?? ''}`
}

function rewriteLinks(md) {
  md.core.ruler.push('fxccm-links', ({ tokens, env }) => {
    const page = path.relative(docs, env.realPath ?? env.path)
    for (const token of tokens.flatMap((t) => [t, ...(t.children ?? [])])) {
      if (token.info === 'promql') token.info = 'txt' // the highlighter does not know PromQL
      if (token.type === 'link_open') token.attrSet('href', siteLink(token.attrGet('href'), page))
    }
  })
}

const title = (file) => readFileSync(path.join(docs, file), 'utf8').match(/^# (.+)$/m)[1].replaceAll('`', '')

// pageLinks are the pages that a text links to, once each, relative to docs.
function pageLinks(text, folder) {
  const targets = [...text.matchAll(/\]\(([^)#\s]+\.md)[^)]*\)/g)].map((found) => found[1])
  const files = targets.filter((t) => !isExternal(t)).map((t) => path.join(folder, t))
  return [...new Set(files)].filter((f) => !f.startsWith('..'))
}

// sidebar follows docs/README.md, the index. A folder's own index adds its pages.
function sidebar() {
  const sections = readFileSync(path.join(docs, 'README.md'), 'utf8').split(/^## /m).slice(1)
  const items = sections.map((section) => {
    const files = pageLinks(section, '').flatMap((file) => {
      if (path.basename(file) !== 'README.md') return [file]
      return [file, ...pageLinks(readFileSync(path.join(docs, file), 'utf8'), path.dirname(file))]
    })
    return {
      text: section.split('\n')[0],
      items: [...new Set(files)].map((file) => ({ text: title(file), link: '/' + pageAt(file) })),
    }
  })
  const listed = new Set(items.flatMap((section) => section.items.map((item) => item.link)))
  for (const file of pages()) {
    if (file !== 'README.md' && !listed.has('/' + pageAt(file))) {
      throw new Error(`docs/${file} is not in docs/README.md`)
    }
  }
  return items
}

const pages = () => readdirSync(docs, { recursive: true }).filter((file) => file.endsWith('.md'))

// checkAnchors fails if a link of the built site names an element that its page lacks. VitePress
// itself checks only the pages of links.
function checkAnchors() {
  const built = readdirSync(out, { recursive: true }).filter((file) => file.endsWith('.html'))
  const html = new Map(built.map((file) => ['/' + file, readFileSync(path.join(out, file), 'utf8')]))
  const base = process.env.SITE_BASE
  const broken = []
  for (const [page, text] of html) {
    for (const [, href] of text.matchAll(/<a\b[^>]*?\bhref="([^"]*#[^"]+)"/g)) {
      if (isExternal(href)) continue
      const url = new URL(href, 'http://site' + base + page.slice(1))
      const target = '/' + url.pathname.slice(base.length).replace(/(^|\/)$/, '$1index.html')
      const id = decodeURIComponent(url.hash.slice(1))
      if (!html.get(target)?.includes(` id="${id}"`)) broken.push(`${page}: ${href}`)
    }
  }
  if (broken.length > 0) throw new Error('links to missing anchors:\n' + broken.join('\n'))
}

// modulesOfPages finds the modules of pages, which are not below the folder of the generator.
const modulesOfPages = {
  name: 'fxccm-modules-of-pages',
  enforce: 'pre',
  resolveId(id, importer, options) {
    if (!importer?.startsWith(docs) || !/^vue($|\/)/.test(id)) return null
    return this.resolve(id, fileURLToPath(import.meta.url), { ...options, skipSelf: true })
  },
}

// style gives the language of a block of code enough contrast, and breaks long names on a phone.
const style = `
html .vp-doc [class*="language-"] > span.lang { color: var(--vp-c-text-2) }
.vp-doc { overflow-wrap: anywhere }
.vp-doc td, .vp-doc th { overflow-wrap: normal }
`

export default defineConfig({
  title: 'fxccm',
  description: 'A Kubernetes cloud controller manager inside your own control plane',
  lang: 'en',
  base: process.env.SITE_BASE,
  head: [
    ['link', { rel: 'icon', href: 'data:,' }],
    ['style', {}, style],
  ],
  srcDir: docs,
  outDir: out,
  rewrites: Object.fromEntries(
    pages().filter((file) => file !== pageAt(file)).map((file) => [file, pageAt(file)]),
  ),
  markdown: {
    anchor: { slugify },
    config: rewriteLinks,
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
  },
  vite: { plugins: [modulesOfPages] },
  themeConfig: {
    search: { provider: 'local' },
    nav: [{ text: 'Repository', link: repository }],
    sidebar: sidebar(),
    outline: [2, 3],
    editLink: { pattern: repository + '/edit/main/docs/:path' },
  },
  buildEnd: checkAnchors,
})
