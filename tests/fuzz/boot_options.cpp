// SPDX-License-Identifier: Apache-2.0
// The card's boot command line. Refused words are named by a part of the line itself; what is accepted is in range, and
// spelling it out again gives the same options.
#include "firmware/core/boot_options.hpp"

#include "shared/boot_arguments.hpp"
#include "tests/fuzz/fuzz.hpp"

void fuzz::run(Input input) {
  const std::string_view line = input.rest_as_text();
  const auto options = fw::parse_boot_options(line);
  if (!options) {
    const std::string_view word = options.error();
    require(!word.empty(), "a refusal names a word");
    require(word.data() >= line.data() && word.data() + word.size() <= line.data() + line.size(),
            "the refused word is a part of the line");
    return;
  }
  require(options->virtual_functions <= wire::boot::kMaxVirtualFunctions, "accepted functions are in range");
  require(options->watchdog_slices != 0, "there always is a watchdog");
  const auto again = fw::parse_boot_options(line);
  require(again && again->virtual_functions == options->virtual_functions && again->self_test == options->self_test &&
              again->quota_bytes == options->quota_bytes && again->watchdog_slices == options->watchdog_slices,
          "parsing has no state");
}
