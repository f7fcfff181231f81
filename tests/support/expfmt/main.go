// Reads a scrape on standard input with the parser of Prometheus' client libraries, and prints the samples of each
// metric family as JSON. Exit status 1 and the parser's words for text that it refuses.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func main() {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	samples := map[string]int{}
	for name, family := range families {
		samples[name] = len(family.Metric)
	}
	if err := json.NewEncoder(os.Stdout).Encode(samples); err != nil {
		os.Exit(1)
	}
}
