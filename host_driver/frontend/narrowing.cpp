// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/narrowing.hpp"

#include <atomic>
#include <string>

#include "host_driver/ras/log.hpp"

namespace svp {

void warn_of_narrowing(ElementFormat from, ElementFormat to) {
  static std::atomic_flag told;
  if (from != ElementFormat::Int64 || told.test(std::memory_order_relaxed) || told.test_and_set()) return;
  const bool rounded = to == ElementFormat::Dl16;
  ras::report({.layer = Layer::Driver,
               .source = "dtype",
               .outcome = wire::Outcome::Ok,
               .recoverable = true,
               .next_step = "keep the values within the card's format, or convert them on the host first",
               .message = "int64 elements are " + std::string(name(to)) + " on the card: " +
                          (rounded ? "they are rounded" : "those beyond int32 become its largest or smallest number") +
                          "; this is told once per process"},
              {});
}

}  // namespace svp
