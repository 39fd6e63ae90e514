// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/process.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace svp {

namespace {

using Word = std::atomic<std::uint64_t>;

// Zero in a process that has not asked yet. The kernel wipes the page at fork(), whatever library called it. Null: it
// can not (before Linux 4.14).
Word* wiped_word() noexcept {
  static Word* const word = []() noexcept -> Word* {
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;
    if (::madvise(page, bytes, MADV_WIPEONFORK) == 0) return new (page) Word(0);
    ::munmap(page, bytes);
    return nullptr;
  }();
  return word;
}

constinit Word last_number{0};  // inherited: a child counts on from its parent's

}  // namespace

std::uint64_t OwnerProcess::current() noexcept {
  Word* const word = wiped_word();
  if (word == nullptr) return static_cast<std::uint64_t>(::getpid());
  std::uint64_t number = word->load(std::memory_order_acquire);
  if (number != 0) return number;
  const std::uint64_t next = last_number.load() + 1;
  if (word->compare_exchange_strong(number, next)) {
    last_number.store(next);
    return next;
  }
  return number;
}

ErrorInfo made_by_the_parent(std::string what) {
  std::string message = what + " belongs to the process that opened it; this process was forked from that one";
  return {.layer = Layer::Driver,
          .source = std::move(what),
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = "use it in the parent only, open another one here, or start workers by spawn instead of fork",
          .message = std::move(message)};
}

void keep_for_ever(std::shared_ptr<const void> object) noexcept {
  // Reachable, so that nobody takes it for a leak.
  static auto* const mutex = new std::mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(*mutex);
  kept->push_back(std::move(object));
}

}  // namespace svp
