// SPDX-License-Identifier: Apache-2.0
// Fault scripts that somebody wrote: refused with the line, or a script in which every fault makes sense, which can be
// written, read again, and drawn the same way twice.
#include <string>

#include "host_driver/faults/script_json.hpp"
#include "tests/fuzz/fuzz.hpp"

void fuzz::run(Input input) {
  using namespace svp::fault;
  const auto script = parse_script(input.rest_as_text());
  if (!script) {
    const svp::ErrorInfo& error = script.error();
    require(error.source.starts_with("script:") && error.source.size() > std::string_view("script:").size(),
            "a refusal names the line");
    require(error.outcome == wire::Outcome::Rejected && !error.message.empty() && !error.next_step.empty(),
            "a refusal says all");
    return;
  }
  for (const Fault& fault : script->faults()) require(!refuse(fault), "what was accepted makes sense");
  const auto again = parse_script(to_json(*script));
  require(again.has_value(), "what was read can be written and read again");
  require(*again == *script, "and is the same script");
  const Script drawn = script->drawn();
  require(drawn == script->drawn(), "the seed decides, and nothing else");
  for (const Fault& fault : drawn.faults()) {
    require(fault.trigger.first.fixed() && fault.argument.fixed(), "a drawn script has no random number left");
    require(!refuse(fault), "what was drawn makes sense");
  }
}
