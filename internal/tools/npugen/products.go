package main

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
)

// productsFile lists the chips that have no kernel of an operator.
const productsFile = "internal/abi/acceptance/products.txt"

var (
	supportHead = regexp.MustCompile(`(?m)^#+ *产品支持.*$`)
	anyHead     = regexp.MustCompile(`(?m)^#+ `)
	blanks      = regexp.MustCompile(`<!--.*?-->|</?term>|[\s` + "`" + `]+`)
	kernelFor   = regexp.MustCompile(`AddConfig\(\s*"(\w+)"`)
)

// chipLetters are the chips of package acceptance by their names in the definitions of kernels.
var chipLetters = map[string]byte{"ascend910": 'a', "ascend910b": 'b', "ascend910_93": 'c', "ascend310p": 'p', "ascend950": 'n'}

// everyChip lists operators whose pages name the 950 alone, although their sources compute on the AI CPU
// of all other chips.
var everyChip = []string{"NormalFloatFloat", "NormalFloatTensor", "NormalTensorFloat", "NormalTensorTensor"}

// productsText returns the table of chips that lack operators: those that an operator's page says are
// not supported, unless the definition of a kernel in the operator's folder names them or the checks
// in the operator's source have lists for them.
func productsText(t *abi.Table, sites map[string]site) []byte {
	lacking := map[string][]string{}
	for i := range t.Operators {
		o := &t.Operators[i]
		at, ok := sites[o.Name]
		if !ok || slices.Contains(everyChip, o.Name) {
			continue
		}
		var letters []byte
		built := kernelsBeside(at)
		for letter, supported := range supportedBy(at.text()) {
			if !supported && !slices.Contains(built, letter) && !hasLists(o.Name, letter) {
				letters = append(letters, letter)
			}
		}
		slices.Sort(letters)
		if len(letters) > 0 {
			lacking[string(letters)] = append(lacking[string(letters)], o.Name)
		}
	}
	var b bytes.Buffer
	b.WriteString("# Chips without a kernel of an operator, by their letters. Made by `npugen pages` from the operators' pages,\n" +
		"# which internal/tools/npugen/docs/pages.txt names, and the definitions of kernels beside them.\n")
	for _, letters := range slices.Sorted(maps.Keys(lacking)) {
		fmt.Fprintf(&b, "%s %s\n", letters, strings.Join(lacking[letters], " "))
	}
	return b.Bytes()
}

// supportedBy returns which chips a page says are supported or not, by their letters. Chips that the page
// does not mention are not in the result.
func supportedBy(text string) map[byte]bool {
	at := supportHead.FindStringIndex(text)
	if at == nil {
		return nil
	}
	section := text[at[1]:]
	if end := anyHead.FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	chips := map[byte]bool{}
	for line := range strings.Lines(section) {
		line = blanks.ReplaceAllString(line, "")
		letter := chipOf(line)
		yes := strings.HasSuffix(line, "：支持") || strings.Contains(line, "√")
		no := strings.HasSuffix(line, "不支持") || strings.Contains(line, "×") || strings.Contains(line, "|x|")
		if letter != 0 && (yes || no) {
			chips[letter] = chips[letter] || yes
		}
	}
	return chips
}

// chipOf returns the letter of the chip in a line of a page, 0 for one that the emulator does not have.
func chipOf(line string) byte {
	has := func(s string) bool { return strings.Contains(line, s) }
	switch {
	case has("200I/500"), has("200/300/500"):
		return 0
	case has("950"), has("910_95"):
		return 'n'
	case has("A3"):
		return 'c'
	case has("A2"):
		return 'b'
	case has("推理系列") && !has("训练"):
		return 'p'
	case has("Atlas训练系列"):
		return 'a'
	}
	return 0
}

// hasLists reports whether the checks in an operator's source were written for a chip, too: they treat
// an older chip otherwise than the 910B, or have a rule for the 950 alone. Not all kernels of the older
// chips are in the public folders, and many pages do not name chips although the sources care for them.
func hasLists(operator string, letter byte) bool {
	text := func(chip acceptance.Chip) (lines []string) {
		rules, _ := acceptance.Rules(operator, chip) // the tables are tested
		for _, r := range rules {
			lines = append(lines, fmt.Sprint(r.Code, r.Cond))
		}
		return lines
	}
	switch letter {
	case 'a', 'p':
		return !slices.Equal(text(acceptance.Chip(letter)), text(acceptance.Ascend910B))
	case 'n':
		others := slices.Concat(text(acceptance.Ascend910B), text(acceptance.Ascend910_93), text(acceptance.Ascend910), text(acceptance.Ascend310P))
		return slices.ContainsFunc(text(acceptance.Ascend950), func(line string) bool { return !slices.Contains(others, line) })
	}
	return false
}

// kernelsBeside returns the letters of the chips for which the folder of a page defines kernels.
func kernelsBeside(at site) (letters []byte) {
	folder, _, ok := strings.Cut(at.path, "/docs/")
	if !ok {
		folder = path.Dir(at.path)
	}
	for p, text := range at.files {
		if strings.HasPrefix(p, folder+"/") && strings.HasSuffix(p, "_def.cpp") {
			for _, m := range kernelFor.FindAllStringSubmatch(text, -1) {
				if letter, known := chipLetters[m[1]]; known {
					letters = append(letters, letter)
				}
			}
		}
	}
	return letters
}
