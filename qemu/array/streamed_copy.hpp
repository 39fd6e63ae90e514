// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#pragma once

#include <cstddef>

namespace svp::array {

// memcpy() with stores that go around the host's caches: of bytes that would have left them before anybody reads them.
void streamed_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace svp::array
