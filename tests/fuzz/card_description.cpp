// SPDX-License-Identifier: Apache-2.0
// card.json of a long-lived card, which anybody may have written: refused with the member's name, or the same when
// written again.
#include "host_driver/discovery/card_description.hpp"

#include "tests/fuzz/fuzz.hpp"

void fuzz::run(Input input) {
  const auto card = svp::parse_card_description(input.rest_as_text());
  if (!card) {
    require(!card.error().source.empty() && !card.error().next_step.empty(), "a refusal names member and next step");
    return;
  }
  const auto again = svp::parse_card_description(svp::to_json(*card));
  require(again.has_value(), "what was read can be written and read again");
  require(*again == *card, "and says the same");
}
