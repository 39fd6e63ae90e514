// SPDX-License-Identifier: Apache-2.0
// The runtimes of this process, in the order in which they were opened: for what concerns all of them at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

namespace svp {

class Runtime;

class OpenRuntimes {
 public:
  static OpenRuntimes& process();

  // Numbers are never given twice.
  std::uint64_t add(Runtime& runtime);
  // Returns when nobody visits it.
  void remove(std::uint64_t number);
  // Calls it for each one without the lock; none of them ends meanwhile. An exception ends the visit.
  void for_each(const std::function<void(Runtime&)>& visit);

 private:
  struct Entry {
    Runtime& runtime;
    std::uint64_t number;
    unsigned visitors = 0;
    bool leaves = false;
  };
  void leave(Entry& entry);

  std::mutex mutex_;
  std::condition_variable left_;
  std::list<Entry> entries_;
  std::uint64_t last_ = 0;
};

}  // namespace svp
