package class_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/class"
)

func TestOf(t *testing.T) {
	lost, other := class.Of(class.ErrPeerLost, "a rank left"), class.Of(class.ErrPeerLost, "a rank left")
	err := fmt.Errorf("rank 3: %w", lost)
	require.ErrorIs(t, err, lost)
	require.ErrorIs(t, err, class.ErrPeerLost)
	require.NotErrorIs(t, err, class.ErrTimeout)
	require.False(t, errors.Is(err, other), "each is an error of its own")
	require.EqualError(t, err, "rank 3: a rank left")
}
