package plugin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/reviewer"
)

// The main function of a plugin.
func ExampleServe() {
	review := func(_ context.Context, q reviewer.Question) plugin.Verdict {
		if q.Ruling.ReadOnly {
			return plugin.Verdict{Outcome: plugin.OutcomeAllow, Risk: plugin.RiskLow, Rationale: "it only reads"}
		}
		return plugin.Verdict{Outcome: plugin.OutcomeUnsure, Rationale: "a person has to look at this"}
	}
	plugin.Serve(plugin.Info{Name: "acme", Version: "1.0.0"}, plugin.Reviewer(plugin.ReviewFunc(review)))
}

// A host asks a plugin, and goes over to another configuration.
func ExampleHost() {
	host := plugin.NewHost(plugin.Options{})
	defer host.Close()
	c, _, err := config.Load("config.yaml")
	if err != nil {
		log.Fatal(err)
	}
	set := host.Open(context.Background(), c.Plugins)
	if err := set.Err(); err != nil {
		log.Print(err) // what they are asked has a person asked
	}
	r, err := set.Reviewer(c, "acme/risk")
	if err != nil {
		log.Fatal(err)
	}
	v := r.Review(context.Background(), reviewer.Question{ID: "a1", Request: &approval.Request{Kind: approval.KindCommand}})
	fmt.Println(v.Outcome, v.Rationale)

	next := host.Open(context.Background(), c.Plugins) // of the configuration as it is now
	defer next.Close()
	set.Close() // once new requests use the next one
}
