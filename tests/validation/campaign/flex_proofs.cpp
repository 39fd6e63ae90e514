// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/flex_proofs.hpp"

#include "host_driver/base/error.hpp"
#include "host_driver/discovery/attach.hpp"

namespace svp::campaign {

FunctionStatistics program_statistics(const LongLivedCard& card) {
  return value_or_throw(function_statistics(card.path(), kProgram));
}

void require_right(const std::string& wrong) {
  if (wrong.empty()) return;
  throw Error({.layer = Layer::Driver,
               .source = "the program of libflex",
               .outcome = wire::Outcome::Rejected,
               .recoverable = true,
               .next_step = "see what it says",
               .message = "before any fault: " + wrong});
}

std::string wrong_in_next_runtime(FlexProcess& program) {
  const std::string answer = program.ask_all({"close", "open", "work"});
  return answer == "ok right" ? std::string() : answer;
}

std::string wrong_at_end(FlexProcess& program) {
  if (const std::string state = program.ask("state"); state != kNoneFailed) return state;
  return program.end();
}

void prove_neighbour(ScenarioContext& context, Bystander& bystander) {
  const std::string wrong = bystander.end(context.timeout());
  context.contained("neighbour", wrong.empty(),
                    wrong.empty() ? std::to_string(bystander.rounds()) + " rounds of the neighbour" : wrong);
}

}  // namespace svp::campaign
