// SPDX-License-Identifier: Apache-2.0
// Callbacks of the program that are due when a transfer has ended. A program may hold a global lock while it waits for
// a stream, and its callbacks may want that lock: so they run on a thread that nobody waits for, or on the thread that
// has waited for the stream, behind the wait. No lock is held while one runs.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace flex::detail {

class Completions : public std::enable_shared_from_this<Completions> {
 public:
  using Callback = std::function<void(void*)>;

  Completions() = default;
  ~Completions();  // in a process that was forked: touches nothing
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  // The callback is due when the result goes. Null for an empty callback. Throws std::system_error: no thread.
  std::shared_ptr<const void> due(unsigned stream, Callback callback);
  // Runs those of the stream that are due and that nobody has begun.
  void run_of(unsigned stream);
  // No callback is begun by the thread any more; what is due runs here. Waits for one that is running, with a bound.
  void stop();

 private:
  struct Item {
    unsigned stream;
    Callback callback;
    Item* next = nullptr;
  };
  void push(Item* item) noexcept;
  Item* take_of(unsigned stream) noexcept;
  void start();
  static void run(Item* item) noexcept;
  static void work(const std::shared_ptr<Completions>& self);

  std::mutex mutex_;
  std::condition_variable changed_;
  Item* first_ = nullptr;
  Item** end_ = &first_;
  bool started_ = false;
  bool stopped_ = false;
  bool thread_ended_ = false;
  std::thread thread_;
};

}  // namespace flex::detail
