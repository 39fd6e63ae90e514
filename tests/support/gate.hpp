// SPDX-License-Identifier: Apache-2.0
// Where a function of the host waits for the test that gave it to a stream.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace svp::test {

// Closed at first, open for ever after open() or with the gate's end, so that a test that ends early leaves no function
// behind. A function that throws has to wait behind a gate until the test has sent what the failure is to meet:
// on a busy machine it is faster than the test's next line, and a stream that has failed refuses what comes then.
class Gate {
 public:
  Gate() = default;
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Returns when the gate is open. Any number of functions may pass, each any number of times.
  void pass() const { passing()(); }
  // A function that does nothing but pass. The gate may end before it returns.
  std::function<void()> passing() const {
    return [state = state_] {
      set(state->arrived);
      state->opened.wait(false);  // bounded: by open(), at the latest in the destructor
    };
  }
  // Returns when the first function has come.
  void wait_for_arrival() const {
    state_->arrived.wait(false);  // bounded: the function begins, or ctest ends the program
  }
  void open() { set(state_->opened); }

 private:
  struct State {
    std::atomic<bool> arrived{false};
    std::atomic<bool> opened{false};
  };
  static void set(std::atomic<bool>& flag) {
    flag = true;
    flag.notify_all();
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace svp::test
