// SPDX-License-Identifier: Apache-2.0
#include "qemu/text_tail.hpp"

namespace qemu {

namespace {

/// A firmware that never writes a newline must not make the line buffer grow: cut there.
constexpr std::size_t kMaximumLine = 16 * 1024;

}  // namespace

TextTail::TextTail(std::size_t capacity, LineCallback on_line) : capacity_(capacity), on_line_(std::move(on_line)) {}

void TextTail::append(std::string_view text) {
  {
    const std::scoped_lock lock(mutex_);
    text_.append(text);
    if (text_.size() > 2 * capacity_) text_.erase(0, text_.size() - capacity_);
  }
  changed_.notify_all();
  if (on_line_) deliver_lines(text);
}

void TextTail::deliver_lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    partial_line_.append(text.substr(0, end));
    if (end == std::string_view::npos && partial_line_.size() < kMaximumLine) return;
    if (partial_line_.ends_with('\r')) partial_line_.pop_back();
    on_line_(partial_line_);
    partial_line_.clear();
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void TextTail::close() {
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  changed_.notify_all();
  if (on_line_ && !partial_line_.empty()) on_line_(partial_line_);
}

std::string TextTail::text() const {
  const std::scoped_lock lock(mutex_);
  return text_.size() <= capacity_ ? text_ : text_.substr(text_.size() - capacity_);
}

bool TextTail::wait_for(std::string_view wanted, std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  const auto found = [&] { return text_.find(wanted) != std::string::npos; };
  changed_.wait_until(lock, deadline, [&] { return closed_ || found(); });
  return found();
}

}  // namespace qemu
