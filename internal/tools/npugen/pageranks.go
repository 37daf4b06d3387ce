package main

import (
	"html"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

var (
	tableTag = regexp.MustCompile(`(?s)<table.*?</table>`)
	rowTag   = regexp.MustCompile(`(?s)<tr.*?</tr>`)
	cellTag  = regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
	anyTag   = regexp.MustCompile(`<[^>]*>`)
	heading  = regexp.MustCompile(`(?m)^#+ *(acl\w+) *$`)
	leading  = regexp.MustCompile(`^[A-Za-z_]\w*`)
)

// pageRanks returns the numbers of dimensions that a page states for each tensor of an operator. It
// reads the column of that name in the parameter table below the heading of phase one.
func pageRanks(text string, o *abi.Operator) map[string]string {
	ranks := map[string]string{}
	for _, table := range tableTag.FindAllString(sectionOf(text, o.Symbol), -1) {
		rows := tableRows(table)
		if len(rows) == 0 || rows[0][0] != "参数名" {
			continue
		}
		column := slices.IndexFunc(rows[0], func(s string) bool { return strings.HasPrefix(s, "维度") })
		if column < 0 {
			continue
		}
		for _, row := range rows[1:] {
			if len(row) != len(rows[0]) { // a cell spans rows: the columns are shifted
				continue
			}
			name := leading.FindString(row[0])
			i := slices.IndexFunc(o.Params, func(p abi.Param) bool {
				return p.Name == name && (p.Class == abi.Tensor || p.Class == abi.TensorList)
			})
			r := rankOf(row[column], o)
			if i >= 0 && o.Params[i].Optional {
				r = strings.TrimPrefix(r, "0,") // zero dimensions mean that the tensor is absent
			}
			if i >= 0 && r != "" {
				ranks[name] = r
			}
		}
		return ranks
	}
	return ranks
}

// sectionOf returns the text below the headings of an operator's phases, or the whole page if no
// heading names the operator.
func sectionOf(text, symbol string) string {
	var b strings.Builder
	found := heading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range found {
		name, end := text[at[2]:at[3]], len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if strings.EqualFold(name, symbol+abi.PhaseOne) || strings.EqualFold(name, symbol) {
			b.WriteString(text[at[1]:end])
		}
	}
	if b.Len() == 0 {
		return text
	}
	return b.String()
}

func tableRows(table string) [][]string {
	var rows [][]string
	for _, tr := range rowTag.FindAllString(table, -1) {
		var row []string
		for _, cell := range cellTag.FindAllStringSubmatch(tr, -1) {
			row = append(row, strings.TrimSpace(html.UnescapeString(anyTag.ReplaceAllString(cell[1], " "))))
		}
		if len(row) > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

var (
	upTo    = regexp.MustCompile(`^(?:不超过|不大于|不高于|小于等于|≤|不支持)(\d)(?:维以上|维)?$`)
	numbers = regexp.MustCompile(`^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$`)
	tuples  = regexp.MustCompile(`^(?:[(\[][\w*+ ]+(?:,[\w*+ ]+)*,?[)\]])+$`)
	tuple   = regexp.MustCompile(`[(\[]([^)\]]*)[)\]]`)
	layout  = regexp.MustCompile(`^[BNSDHT]{3,4}$`)
	sameAs  = regexp.MustCompile(`^(?:shape|维度)?(?:需要|需)?[与和同] *[“"]?(\w+)[”"]?(?:参数|的shape|的维度)?(?:保持)?(?:一致|相同)$`)
	spaces  = regexp.MustCompile(`\s+`)
)

// rankOf converts a cell to "0-8", "2,4", "(B,N,S,1) or (T,N,1)", "BSND or TND" or "as x", where x
// is another parameter. It returns "" for any other cell instead of guessing.
func rankOf(cell string, o *abi.Operator) string {
	s := strings.TrimSuffix(strings.TrimSpace(cell), "。")
	s = strings.NewReplacer("（", "(", "）", ")", "，", ",", "~", "-", "～", "-", "\\*", "*").Replace(s)
	if m := upTo.FindStringSubmatch(s); m != nil {
		return "0-" + m[1]
	}
	if m := sameAs.FindStringSubmatch(s); m != nil {
		if slices.ContainsFunc(o.Params, func(p abi.Param) bool { return p.Name == m[1] }) {
			return "as " + m[1]
		}
		return ""
	}
	short := spaces.ReplaceAllString(strings.TrimPrefix(strings.TrimPrefix(s, "shape"), "为"), "")
	if n := strings.NewReplacer("、", ",", "或者", ",", "或", ",", "/", ",", "维", "").Replace(short); numbers.MatchString(n) {
		return n
	}
	short = strings.NewReplacer(")、", ")", "]、", "]", ")或者", ")", ")或", ")", "]或", "]", ")/", ")", "),(", ")(", "],[", "][").Replace(short)
	if !tuples.MatchString(short) {
		return ""
	}
	var shapes []string
	for _, m := range tuple.FindAllStringSubmatch(short, -1) {
		if layout.MatchString(m[1]) {
			shapes = append(shapes, m[1])
		} else {
			shapes = append(shapes, "("+strings.TrimSuffix(m[1], ",")+")")
		}
	}
	return strings.Join(shapes, " or ")
}
