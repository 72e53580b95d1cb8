package durability_test

import (
	"os"
	"strconv"
	"testing"
)

// TestMain is also the entry of the services that the kill test starts.
func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// scaled multiplies a number of rounds by CRUMB_TEST_SCALE, for long campaigns.
func scaled(t *testing.T, rounds int) int {
	t.Helper()
	text := os.Getenv("CRUMB_TEST_SCALE")
	if text == "" {
		return rounds
	}
	scale, err := strconv.Atoi(text)
	if err != nil || scale < 1 {
		t.Fatalf("CRUMB_TEST_SCALE=%q: expected a number from 1", text)
	}
	return rounds * scale
}
