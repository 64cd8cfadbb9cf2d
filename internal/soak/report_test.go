package main

import "testing"

func TestOver(t *testing.T) {
	var rising []float64
	for i := range 28 {
		rising = append(rising, float64(i<<20))
	}
	for want, bytes := range map[string][]float64{
		"MiB":                           nil,
		"7 MiB":                         {7 << 20},
		"7 9 MiB":                       {7 << 20, 9 << 20},
		"0 3 6 9 12 15 18 21 24 27 MiB": rising,
	} {
		if got := over(bytes); got != want {
			t.Errorf("%v: %q, want %q", bytes, got, want)
		}
	}
}
