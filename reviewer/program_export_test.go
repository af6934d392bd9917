package reviewer

import "context"

// RunWithout is p.Run on a system that kills nothing.
func RunWithout(ctx context.Context, p Program) ([]byte, error) {
	cmd, err := p.command()
	if err != nil {
		return nil, err
	}
	return run(ctx, cmd, nil, func(int) {})
}
