package job

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/goascend/cann/acl"
)

// Close closes c and adds its error to that of the function that defers it. After Abandon, that work
// was dropped is no news.
func Close(err *error, c io.Closer) {
	if closed := c.Close(); *err == nil || !errors.Is(closed, acl.ErrAborted) {
		*err = errors.Join(*err, closed)
	}
}

// abandonLimit is how long the device may take to drop its work.
const abandonLimit = 10 * time.Second

// Abandon drops the work of the device if the function that defers it has failed. What is closed
// afterwards would otherwise wait for that work, which may include collectives to which the other
// ranks never come, because they wait for this one in another.
func Abandon(err *error, dev *acl.Device) {
	if *err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), abandonLimit)
		defer cancel()
		*err = errors.Join(*err, dev.Abort(ctx))
	}
}
