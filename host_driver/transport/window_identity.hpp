// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace svp {

// Which memory file a window is, wherever it is mapped.
struct WindowIdentity {
  std::uint64_t device = 0;
  std::uint64_t file = 0;
  friend auto operator<=>(const WindowIdentity&, const WindowIdentity&) = default;
};

}  // namespace svp
