// SPDX-License-Identifier: Apache-2.0
// bundle.mlir: refused by InvalidPlan that names the line, or a list of executions that is bounded and consistent.
#include "host_driver/compiler/bundle_text.hpp"

#include "host_driver/compiler/source_place.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace svp::compiler;

void expect_consistent(const std::vector<Statement>& body, const BundleText& text, unsigned loops) {
  fuzz::require(loops <= kMostNestedLoops, "loops are bounded");
  for (const Statement& statement : body) {
    if (const auto* loop = std::get_if<Loop>(&statement.what)) {
      fuzz::require(loop->count != 0, "a loop has iterations");
      expect_consistent(loop->body, text, loops + 1);
      continue;
    }
    const auto& execution = std::get<Execution>(statement.what);
    fuzz::require(!execution.sdsc_file.empty() && !execution.sdsc_file.contains('/'), "a file's name is plain");
    for (const Execution::Binding& binding : execution.bindings) {
      const SymbolicAddress& address = binding.address;
      fuzz::require(address.base != SymbolicAddress::Base::Argument || address.argument < text.parameters.size(),
                    "an address is of a parameter");
      for (const LoopTerm& term : address.loops)
        fuzz::require(term.loop < loops, "an address moves with loops around it");
    }
  }
}

}  // namespace

void fuzz::run(Input input) {
  try {
    const BundleText text = parse_bundle_text(input.rest_as_text());
    expect_consistent(text.body, text, 0);
  } catch (const InvalidPlan& refused) {
    require(refused.field().starts_with(kBundleFileName) && !refused.info().next_step.empty(),
            "a refusal names the file and the next step");
  }
}
