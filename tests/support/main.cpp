// SPDX-License-Identifier: Apache-2.0
// The main program of every doctest executable. A run that executes no test case or no check is red: it could not fail.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

namespace {

struct run_totals {
  unsigned cases = 0;
  int checks = 0;
};
run_totals totals;

struct totals_listener : doctest::IReporter {
  explicit totals_listener(doctest::ContextOptions const&) {}
  void test_run_end(doctest::TestRunStats const& run) override {
    totals = {run.numTestCasesPassingFilters, run.numAsserts};
  }
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_case_start(doctest::TestCaseData const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
};
DOCTEST_REGISTER_LISTENER("totals", 1, totals_listener);

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context{argc, argv};
  int const failed = context.run();
  if (failed != 0 || context.shouldExit()) return failed;
  if (totals.cases == 0 || totals.checks == 0) {
    std::fputs("no test case ran a check; give the program one, or correct the filter\n", stderr);
    return 1;
  }
  return 0;
}
