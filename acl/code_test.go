package acl

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestEveryCodeOfTheHeadersIsDescribed compares the tables with CANN's headers, both ways.
func TestEveryCodeOfTheHeadersIsDescribed(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	inHeaders := make(map[string]Code)
	for _, c := range table.Constants {
		if strings.HasPrefix(c.Name, "ACL_ERROR_") || strings.HasPrefix(c.Name, "ACLNN_ERR_") || strings.HasPrefix(c.Name, "DCMI_ERR_") {
			v, err := strconv.ParseInt(c.Value, 10, 32)
			require.NoError(t, err, c.Name)
			inHeaders[c.Name] = Code(v)
		}
	}
	require.Greater(t, len(inHeaders), 200)
	for name, code := range inHeaders {
		if code == 0 || name == "ACLNN_ERR_INNER_KEY_CONFILICT" { // have better names: ACL_SUCCESS, and one without the mistake
			continue
		}
		assert.Equal(t, name, code.String())
	}
	for code, info := range codes {
		_, known := inHeaders[info.name]
		assert.True(t, known || code == 0, "%d %s", code, info.name)
	}
}

func TestEveryCodeSaysWhatToDo(t *testing.T) {
	for code, info := range codes {
		assert.NotEmpty(t, code.Meaning(), "%v", code)
		if info.group != nil {
			assert.NotEmpty(t, code.Hint(), "%v", code)
			assert.NotEmpty(t, groupHints[info.group], "%v", info.group)
		}
		assert.NotEmpty(t, code.Damage().String(), "%v", code)
		if code > 0 && code < 300000 && code.Damage() == DamageDevice {
			assert.Contains(t, []error{ErrDeviceLost, ErrAborted, ErrTimeout}, info.group, "%v: caller errors do not break devices", code)
		}
	}
}

func TestUnknownCodes(t *testing.T) {
	for _, c := range []struct {
		code   Code
		group  error
		damage Damage
	}{
		{199999, ErrInvalidArgument, DamageNone},
		{299999, nil, DamageNone},
		{599999, nil, DamageDevice},
		{-1, nil, DamageNone},
	} {
		assert.Equal(t, c.group, c.code.group(), "%d", c.code)
		assert.Equal(t, c.damage, c.code.Damage(), "%d", c.code)
		assert.Empty(t, c.code.Meaning())
		assert.Contains(t, c.code.String(), "code ")
	}
}
