// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/memory_usage.hpp"

namespace svp {

void MemoryUsage::forget_blocks() {
  for (Meter* meter : {&allocation_, &allocated_bytes_, &requested_bytes_, &active_, &active_bytes_, &inactive_split_,
                       &inactive_split_bytes_}) {
    meter->clear();
  }
}

void MemoryUsage::reset_peaks() {
  for (Meter* meter : {&allocation_, &allocated_bytes_, &requested_bytes_, &active_, &active_bytes_, &inactive_split_,
                       &inactive_split_bytes_, &segment_, &reserved_bytes_}) {
    meter->reset_peak();
  }
}

void MemoryUsage::reset_accumulated() {
  for (Meter* meter : {&allocation_, &allocated_bytes_, &requested_bytes_, &active_, &active_bytes_, &inactive_split_,
                       &inactive_split_bytes_, &segment_, &reserved_bytes_}) {
    meter->reset_accumulated();
  }
  failures_at_reset_ = failures_;
  retries_ = 0;
}

MemoryStats MemoryUsage::stats() const {
  return {.allocation = allocation_.counter(),
          .allocated_bytes = allocated_bytes_.counter(),
          .requested_bytes = requested_bytes_.counter(),
          .active = active_.counter(),
          .active_bytes = active_bytes_.counter(),
          .inactive_split = inactive_split_.counter(),
          .inactive_split_bytes = inactive_split_bytes_.counter(),
          .segment = segment_.counter(),
          .reserved_bytes = reserved_bytes_.counter(),
          .largest_free_block = 0,
          .fragmentation = 0,
          .num_ooms = failures_ - failures_at_reset_,
          .num_alloc_retries = retries_};
}

}  // namespace svp
