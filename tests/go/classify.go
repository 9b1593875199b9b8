package main

import (
	"os"
	"strings"

	"k8s.io/controller-manager/pkg/leadermigration"
	"k8s.io/controller-manager/pkg/leadermigration/config"
)

// classify reads a leader migration file as the controller managers do, and says where a component runs each of the
// controllers that CLIENTS_CONTROLLERS names. A file that they refuse is one line with the reason.
func classify() error {
	read, err := config.ReadLeaderMigrationConfiguration(os.Getenv("CLIENTS_FILE"))
	if err != nil {
		say("refused: %s", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	if problems := config.ValidateLeaderMigrationConfiguration(read); len(problems) > 0 {
		say("refused: %s", strings.ReplaceAll(problems.ToAggregate().Error(), "\n", " "))
		return nil
	}
	say("lock %s", read.LeaderName)
	migrator := leadermigration.NewLeaderMigrator(read, os.Getenv("CLIENTS_COMPONENT"))
	words := map[leadermigration.FilterResult]string{
		leadermigration.ControllerUnowned:     "unowned",
		leadermigration.ControllerMigrated:    "migration",
		leadermigration.ControllerNonMigrated: "main",
	}
	for _, name := range strings.Split(os.Getenv("CLIENTS_CONTROLLERS"), ",") {
		say("%s %s", name, words[migrator.FilterFunc(name)])
	}
	return nil
}
