"""Tests of abreast. pytest itself loads no framework: see `harness`."""
