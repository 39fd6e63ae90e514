// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/completions.hpp"

#include <chrono>
#include <utility>

#include "host_driver/compat/flex/2026-08-21/timeouts.hpp"

namespace flex::detail {

Completions::~Completions() {
  if (thread_.joinable()) thread_.detach();
}

std::shared_ptr<const void> Completions::due(unsigned stream, Callback callback) {
  if (!callback) return nullptr;
  start();
  auto item = std::make_unique<Item>(stream, std::move(callback));
  return {item.release(), [self = shared_from_this()](Item* ended) { self->push(ended); }};
}

void Completions::push(Item* item) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      *end_ = item;
      end_ = &item->next;
      changed_.notify_all();
      return;
    }
  }
  run(item);
}

// Null: there is none.
Completions::Item* Completions::take_of(unsigned stream) noexcept {
  const std::lock_guard lock(mutex_);
  for (Item** at = &first_; *at != nullptr; at = &(*at)->next) {
    Item* const item = *at;
    if (item->stream != stream) continue;
    *at = item->next;
    if (end_ == &item->next) end_ = at;
    return item;
  }
  return nullptr;
}

void Completions::run_of(unsigned stream) {
  while (Item* item = take_of(stream)) run(item);
}

// What a callback throws has nobody to go to: the transfer has ended as its stream says.
void Completions::run(Item* item) noexcept {
  const std::unique_ptr<Item> due(item);
  try {
    due->callback(nullptr);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

void Completions::start() {
  const std::lock_guard lock(mutex_);
  if (started_ || stopped_) return;
  thread_ = std::thread([self = shared_from_this()] { work(self); });
  started_ = true;
}

void Completions::work(const std::shared_ptr<Completions>& self) {
  std::unique_lock lock(self->mutex_);
  for (;;) {  // bounded: stop() ends it
    // bounded: push() or stop() ends it
    self->changed_.wait(lock, [&] { return self->first_ != nullptr || self->stopped_; });
    if (self->stopped_) break;
    Item* const item = self->first_;
    self->first_ = item->next;
    if (self->first_ == nullptr) self->end_ = &self->first_;
    lock.unlock();
    run(item);
    lock.lock();
  }
  self->thread_ended_ = true;
  self->changed_.notify_all();
}

void Completions::stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  while (first_ != nullptr) {
    Item* const item = first_;
    first_ = item->next;
    lock.unlock();
    run(item);
    lock.lock();
  }
  end_ = &first_;
  if (!started_ || !thread_.joinable()) return;
  // A callback that drops the last pointer to the runtime ends it from this very thread.
  const bool own = thread_.get_id() == std::this_thread::get_id();
  const auto deadline = std::chrono::steady_clock::now() + kCallbackEnd;
  const bool ended = !own && changed_.wait_until(lock, deadline, [&] { return thread_ended_; });
  lock.unlock();
  if (ended) {
    thread_.join();  // bounded: it has left its loop
  } else {
    thread_.detach();
  }
}

}  // namespace flex::detail
