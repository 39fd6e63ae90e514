// SPDX-License-Identifier: Apache-2.0
// Whether the cards of a test are to have the compute array, so that one that is not found or not loaded is an error.
// SPYRE_BUILD_HAS_ARRAY: spyre_no_array_test().
#pragma once

#include <cstdlib>
#include <string_view>

namespace svp::test {

inline bool cards_have_array() {
  const char* const named = std::getenv("SPYRE_ARRAY");
  return SPYRE_BUILD_HAS_ARRAY && (named == nullptr || std::string_view(named) != "off");
}

}  // namespace svp::test
