package client

import (
	"context"
	"time"
)

// KeepAliveEvery is KeepAlive at another pace.
func (c *Client) KeepAliveEvery(ctx context.Context, instance string, every time.Duration) error {
	return c.keepAlive(ctx, instance, every)
}
