package abi

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEnumerations(t *testing.T) {
	table, err := Load()
	require.NoError(t, err)
	all, err := LoadEnumerations(table)
	require.NoError(t, err)
	require.Greater(t, len(all.List), 40)

	cube := all.Of("Matmul", "cubeMathType")
	require.NotNil(t, cube)
	assert.Equal(t, "CubeMathType", cube.Name)
	assert.Equal(t, 8, cube.Bits, "of the narrowest C integer")
	assert.Equal(t, EnumValue{"CubeUseHF32", "3", "float32 operands are cut to HF32"}, cube.Values[3])
	assert.Equal(t, 32, all.Of("WeightQuantBatchMatmulV3", "innerPrecise").Bits, "int here, int64_t elsewhere")

	assert.Equal(t, "2", all.Of("MseLoss", "reduction").Values[2].Value, "a C constant")
	assert.Nil(t, all.Of("InplaceQuantScatter", "reduction"), "an exception")
	assert.Equal(t, "GeluApproximation", all.Of("GeluV2", "approximate").Name, "an integer")
	assert.Equal(t, "GeluApproximationName", all.Of("GeluQuant", "approximate").Name, "a text of the same name")
	assert.Equal(t, "RoutingQuantMode", all.Of("MoeInitRoutingV3", "quantMode").Name)
	assert.Nil(t, all.Of("SwigluGroupQuant", "quantMode"))
	assert.Same(t, DTypeEnumeration, all.Of("AscendQuant", "dstType"))
	assert.Nil(t, all.Of("Cast", "dtype"), "C has a type for it")
	assert.Nil(t, all.Of("Nothing", "mode"))
	var none *Enumerations
	assert.Nil(t, none.Of("Matmul", "cubeMathType"))
}

func TestEnumerationsRefuse(t *testing.T) {
	table, err := Load()
	require.NoError(t, err)
	const mode = "enum\tMode\tint\tMode is a mode.\nvalue\tModeA\t1\n"
	for text, want := range map[string]string{
		"value\tA\t1":                                                    "enums.txt:1: cannot parse",
		"enum\tMode\tint\tA mode.":                                       "enums.txt:1: cannot parse",
		"enum\tMode\tbool\tMode is a mode.":                              "enums.txt:1: cannot parse",
		"enum\tMode\tint\tMode is a mode.":                               "Mode has no value or no parameter",
		mode:                                                             "Mode has no value or no parameter",
		mode + "value\tModeA\t2":                                         "ModeA or its value is given twice",
		mode + "value\tModeB\t1":                                         "ModeB or its value is given twice",
		mode + "value\tModeB\t\"b\"":                                     `"b" is no value of Mode`,
		mode + "value\tModeB\tNOTHING":                                   "NOTHING is no value of Mode",
		mode + "value\tModeB\t128\nparam\tcubeMathType\t*":               "ModeB: strconv.ParseInt",
		mode + "param\tmode\tAdd":                                        "has no parameter mode for Mode",
		mode + "param\troundMode\tAscendQuant":                           "has no parameter roundMode for Mode",
		mode + "param\tmode\tDivMod\nparam\tmode\tDivMod":                "two enumerations for parameter mode of DivMod",
		mode + "param\tmode\t*\ndtype\tmode\t*":                          "two enumerations for parameter mode of",
		"enum\tText\ttext\tText is one.\nvalue\tT\t1":                    "1 is no value of Text",
		"enum\tText\ttext\tText is one.\nvalue\tT\t\"a\"\nparam\tdim\t*": "has no parameter dim for Text",
	} {
		_, err := parseEnumerations(table, text)
		require.ErrorContains(t, err, want, text)
	}
}
