// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace qemu {

/// The last `capacity` bytes of a text stream, also cut into lines for whoever wants them as they come.
/// Thread-safe; the line callback runs in append() and close(), outside the lock.
class TextTail {
 public:
  using LineCallback = std::function<void(std::string_view line)>;

  explicit TextTail(std::size_t capacity, LineCallback on_line = {});

  void append(std::string_view text);
  /// No more text will come: delivers an unfinished line, ends every wait.
  void close();

  [[nodiscard]] std::string text() const;
  /// Waits until text() contains `wanted`; false at the deadline, or when closed without it.
  [[nodiscard]] bool wait_for(std::string_view wanted, std::chrono::milliseconds timeout) const;

 private:
  void deliver_lines(std::string_view text);

  const std::size_t capacity_;
  const LineCallback on_line_;
  std::string partial_line_;  ///< only touched by the appending thread
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string text_;  ///< up to twice the capacity, so that dropping the old part is rare
  bool closed_ = false;
};

}  // namespace qemu
