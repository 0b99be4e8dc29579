package strictyaml

import "strings"

// Within is the place of a byte of a scalar's text, as it was written.
func (n *Node) Within(offset int) Place {
	for i := len(n.edits) - 1; i >= 0; i-- {
		offset = n.edits[i].back(offset)
	}
	p := n.At
	line := []rune(p.File.line(p.Line))
	start := p.Column - 1
	if start < 0 || start >= len(line) {
		return p
	}
	switch line[start] {
	case '|', '>':
		return n.withinBlock(offset)
	case '"', '\'':
		p.Column++
		double := line[start] == '"'
		for i := start + 1; i < len(line) && offset > 0; {
			size := 1
			switch {
			case double && line[i] == '\\' && i+1 < len(line):
				switch line[i+1] {
				case 'x':
					size = 4
				case 'u':
					size = 6
				case 'U':
					size = 10
				default:
					size = 2
				}
				offset--
			case !double && line[i] == '\'':
				size = 2
				offset--
			default:
				offset -= len(string(line[i]))
			}
			i += size
			p.Column += size
		}
	default:
		for i := start; i < len(line) && offset > 0; i++ {
			offset -= len(string(line[i]))
			p.Column++
		}
	}
	p.Column = min(p.Column, len(line)+1)
	return p
}

// withinBlock counts lines and the indent of | and >.
func (n *Node) withinBlock(offset int) Place {
	p := n.At
	indent := -1
	for l := p.Line + 1; l <= len(p.File.lines); l++ {
		text := p.File.line(l)
		if trimmed := strings.TrimLeft(text, " "); indent < 0 && trimmed != "" {
			indent = len(text) - len(trimmed)
		}
		if indent < 0 || len(text) < indent {
			offset -= min(offset, 1)
			continue
		}
		if body := text[indent:]; offset <= len(body) {
			return Place{p.File, l, indent + 1 + len([]rune(body[:offset]))}
		} else {
			offset -= len(body) + 1
		}
	}
	return p
}

// edit is a replacement in a scalar: length bytes at offset became size bytes.
type edit struct{ offset, length, size int }

// back maps an offset after the edit to the one before it.
func (e edit) back(offset int) int {
	switch {
	case offset < e.offset:
		return offset
	case offset < e.offset+e.size:
		return e.offset
	}
	return offset - e.size + e.length
}

// Replace puts with in place of length bytes at offset.
func (n *Node) Replace(offset, length int, with string) {
	n.Text = n.Text[:offset] + with + n.Text[offset+length:]
	n.edits = append(n.edits[:len(n.edits):len(n.edits)], edit{offset, length, len(with)})
}
