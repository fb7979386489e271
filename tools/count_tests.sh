# count_tests junit.xml: sums the test cases in ctest's report and prints 'N passed, N failed'; false if any failed. A doctest
# executable counts its cases, any other test counts as one. Sourced, not run.
# shellcheck shell=bash
count_tests() {
  awk '
    /<testcase / {
      tests++
      counted_failures = counted = 0
      ok = $0 ~ / status="run"/
    }
    /\[doctest\] test cases:/ {
      for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed") { passed += $i; counted += $i }
        if ($(i + 1) == "failed") { failed += $i; counted_failures += $i }
      }
    }
    /<\/testcase>/ {
      if (ok && counted + counted_failures == 0) passed++
      if (!ok && counted_failures == 0) failed++  # crashed, timed out, skipped, not found
    }
    END {
      printf "\n%d test programs ran\n%d passed, %d failed\n", tests, passed, failed
      exit failed > 0
    }
  ' "$1"
}
