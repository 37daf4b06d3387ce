package docs

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

func operators(t testing.TB) *abi.Table {
	t.Helper()
	table, err := abi.Load()
	require.NoError(t, err)
	return table
}

func load(t testing.TB) (*abi.Table, *Table) {
	t.Helper()
	table := operators(t)
	docs, err := Load(table)
	require.NoError(t, err)
	return table, docs
}

// pageless lists the operators without a page in the public repositories that were searched.
const pageless = "AcosGradV2 AddMatMatElementsPlus ApplyAdamax ApproximateEqual AsinhGrad BandwidthTest ChunkGatedDeltaRuleFwdH ChunkKdaBwdIntra " +
	"DataFormatDimMap FlashAttn FlashAttnMetadata InnerFusedInferAttentionScore KdaGateCumsum MlaPrologV2 MlaPrologV3 Ndtri PrecisionCompareV2 " +
	"PrepareWyReprBwd QuantFlashAttn QuantFlashAttnMetadata SliceNz"

func TestPagesOfOperators(t *testing.T) {
	table, docs := load(t)
	var without []string
	shaped := 0
	for _, o := range table.Operators {
		doc := docs.Of(o.Name)
		if doc.Page == (abi.Page{}) {
			without = append(without, o.Name)
			continue
		}
		assert.Regexp(t, `^[\w-]+/[\w-]+$`, doc.Page.Repository, o.Name)
		assert.Regexp(t, `^[0-9a-f]{40}$`, doc.Page.Commit, o.Name)
		assert.Equal(t, ".md", path.Ext(doc.Page.Path), o.Name)
		assert.Equal(t, doc.Page.Path, path.Clean(doc.Page.Path), o.Name)
		if len(doc.Shapes) > 0 {
			shaped++
		}
	}
	assert.Equal(t, strings.Fields(pageless), without, "operators without a page")
	assert.Equal(t, 1192, len(table.Operators)-len(without), "operators with a page")
	assert.GreaterOrEqual(t, shaped, 869, "operators with a tensor whose shape the page gives")
}

func TestDocOfOperator(t *testing.T) {
	_, docs := load(t)
	lerp := docs.Of("InplaceLerp")
	assert.Equal(t, "hicann/ops-math", lerp.Page.Repository)
	assert.Equal(t, "math/lerp/docs/aclnnLerp&aclnnInplaceLerp.md", lerp.Page.Path)
	assert.Equal(t, map[string]string{"selfRef": "0-8", "end": "0-8", "weight": "0-8"}, lerp.Shapes)
	assert.Equal(t, "ReductionNone, ReductionMean, ReductionSum or ReductionBatchMean", docs.Of("KlDiv").Values["reduction"], "its own line")
	assert.Equal(t, "ReductionNone, ReductionMean or ReductionSum", docs.Of("MseLoss").Values["reduction"], "the line for all")
	assert.Equal(t, &Doc{}, docs.Of("Nothing"))
	var none *Table
	assert.Equal(t, &Doc{}, none.Of("Add"))
}

// Every operator must have a summary, and no two of its words may run together.
func TestEveryOperatorHasASummary(t *testing.T) {
	table, docs := load(t)
	for _, o := range table.Operators {
		summary := docs.Of(o.Name).Summary
		assert.NotEmpty(t, summary, o.Name)
		assert.Regexp(t, `^[a-z]\S*( \S+)*$`, summary, o.Name)
		assert.NotContains(t, summary, "aclnn", o.Name)
	}
}

// An operator or parameter that a summary names must exist.
func TestSummariesNameWhatExists(t *testing.T) {
	table, docs := load(t)
	word := regexp.MustCompile(`\b[A-Z]\w*[a-z]\w*\b`)
	known := map[string]bool{"Fourier": true, "Cholesky": true, "Kullback": true, "Leibler": true,
		"Kimi": true, "Einstein": true, "Adadelta": true, "Adamax": true, "Adam": true, "AdamW": true, "Fresnel": true, "Gaussian": true, "Unfold": true, "NaN": true}
	for _, o := range table.Operators {
		fields := map[string]bool{}
		for _, p := range o.Params {
			fields[strings.ToUpper(p.Name[:1])+p.Name[1:]] = true
		}
		for _, w := range word.FindAllString(docs.Of(o.Name).Summary, -1) {
			_, operator := table.Operator(w)
			assert.True(t, operator || fields[w] || known[w], "%s: %s is neither an operator nor a parameter", o.Name, w)
		}
	}
}

func TestInPlaceSummary(t *testing.T) {
	docs, err := Parse(operators(t), abi.Text{Name: "s", Data: "summary\taclnnSin\tcomputes the sine\nsummary\taclnnInplaceCos\tcomputes the cosine"})
	require.NoError(t, err)
	assert.Equal(t, "is Sin with the result in place of the first argument", docs.Of("InplaceSin").Summary)
	assert.Equal(t, "computes the cosine", docs.Of("InplaceCos").Summary)
	assert.Empty(t, docs.Of("InplaceTan").Summary)
}

func TestParseRefuses(t *testing.T) {
	table := operators(t)
	const head = "repository\ta/b\t1234\n"
	for line, want := range map[string]string{
		"pages\tx":                                               `unknown kind of line "pages"`,
		"summary\taclnnAdd":                                      "summary: 1 fields, want 2",
		"summary\taclnnAdd\tadds\tmore":                          "summary: 3 fields, want 2",
		"summary\taclnnAdd\t":                                    "summary: field 2 is empty",
		"summary\taclnnAdd\tadds.":                               "without a full stop",
		"summary\taclnnAdd\tadds ":                               "without space",
		"summary\tAdd\tadds":                                     `summary: no operator "Add"`,
		"summary\taclnnAdd\tadds\nsummary\taclnnAdd\tadds":       "aclnnAdd has two summaries",
		"repository\ta/b\t1":                                     "repository a/b given twice",
		"page\taclnnNone\ta/b\tx.md":                             `page: no operator "aclnnNone"`,
		"page\taclnnAdd\ta/c\tx.md":                              `no repository line for "a/c"`,
		"page\taclnnAdd\ta/b\tx.md\npage\taclnnAdd\ta/b\ty.md":   "aclnnAdd has two pages",
		"page\taclnnAdd\ta/b\tx.md\tself":                        `"self" is not param:shape`,
		"page\taclnnAdd\ta/b\tx.md\talpha:1":                     `it has no tensor "alpha"`,
		"page\taclnnAdd\ta/b\tx.md\tself:1\tself:2":              "two shapes of self",
		"values\tselfs\t*\tx":                                    `no operator has an integer or string "selfs"`,
		"values\tself\tAdd\tx":                                   `no operator Add with an integer or string "self"`,
		"values\tdim\tCumsum\tx\nvalues\tdim\tCumsum Cumprod\ty": "values of dim given twice for Cumsum",
		"values\treduction\t*\tx\nvalues\treduction\t*\ty":       "values of reduction given twice for all operators",
		"values\treduction\tKlDiv *\tx":                          `no operator * with an integer or string "reduction"`,
	} {
		_, err := Parse(table, abi.Text{Name: "head", Data: head}, abi.Text{Name: "more", Data: "\n" + line})
		var syntax *abi.SyntaxError
		require.ErrorAs(t, err, &syntax, line)
		assert.Contains(t, syntax.Msg, want, line)
		assert.Equal(t, "more", syntax.File, line)
		assert.Equal(t, 2+strings.Count(line, "\n"), syntax.Line, line)
	}
}
