package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (f *benchFlags) runScenario(_ *cobra.Command, file string) error {
	return usage{fmt.Errorf("%s: files of scenarios are not read yet", file)}
}
