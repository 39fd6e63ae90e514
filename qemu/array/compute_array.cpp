// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/compute_array.hpp"

#include <atomic>
#include <cstring>
#include <optional>
#include <type_traits>

#include "qemu/array/plan_sticks.hpp"

namespace svp::array {
namespace {

using wire::array::Hello;
using wire::array::Kind;
using wire::array::Move;
using wire::array::Order;
using wire::array::Orders;
using wire::array::Outcome;
using wire::array::Request;

constexpr unsigned kMaxHarts = 512;

// The data of chunks may still refuse them; chunks and a search say how far they have come. The other kinds are
// executed as a whole.
template <typename Plan>
Answer executed(Plan& plan, Answer answer) {
  if constexpr (std::is_same_v<Plan, ChunkPlan> || std::is_same_v<Plan, TopKPlan>) {
    answer.done = execute(plan);
    return answer.done != 0 ? answer : refused();
  } else {
    execute(plan);
  }
  return answer;
}

// The order for the request that is about to be executed; it is carried out only once.
Order take(Orders& orders) {
  const Order order = orders.order;
  switch (order) {
    case Order::Serve: return order;
    case Order::Ask:
    case Order::Asked: orders.order = Order::Asked; return Order::Ask;
    case Order::ServeOne:
    case Order::RefuseOne:
    case Order::CorruptOne:
    case Order::FailOne: orders.order = Order::Ask; return order;
  }
  return Order::RefuseOne;
}

void invert(std::byte& byte, unsigned bit) { byte ^= std::byte{1} << bit; }

class RequestServer {
 public:
  RequestServer(const CardMemory& memory, std::uint64_t root, Orders& orders)
      : memory_(memory), root_(root), orders_(orders) {}

  Answer answer(const Request& request) const {
    Kind kind{};
    std::memcpy(&kind, &request.kind, sizeof kind);
    switch (kind) {
      case Kind::Rows: return answer<RowsPlan>(request);
      case Kind::Chunk: return answer<ChunkPlan>(request);
      case Kind::Lines: return answer<LinesPlan>(request);
      case Kind::Convert: return answer<ConvertPlan>(request);
      case Kind::Blocks: return answer<BlocksPlan>(request);
      case Kind::Copies: return answer<CopiesPlan>(request);
      case Kind::TopK: return answer<TopKPlan>(request);
    }
    return refused();
  }

 private:
  template <typename Plan>
  Answer answer(const Request& request) const {
    static thread_local Plan plan;
    std::memcpy(&plan.request, &request, sizeof request);
    const Answer good = prepare(memory_, root_, plan);
    if (good.outcome != Outcome::Done) return good;
    const Order order = take(orders_);
    return order == Order::Serve ? executed(plan, good) : carry_out(order, plan, good);
  }

  template <typename Plan>
  Answer carry_out(Order order, Plan& plan, const Answer& good) const {
    switch (order) {
      case Order::Ask: return {.outcome = Outcome::Ask};
      case Order::RefuseOne: return refused();
      case Order::FailOne:
        orders_.failed = memory_.physical_of(read_stick(plan, orders_.argument));
        return {.outcome = Outcome::MemoryError};
      case Order::CorruptOne: return corrupted(plan, executed(plan, good));
      default: return executed(plan, good);
    }
  }

  template <typename Plan>
  Answer corrupted(const Plan& plan, const Answer& answer) const {
    constexpr std::uint64_t kStickBits = wire::kStickBytes * 8;
    const std::uint64_t bit = orders_.argument % kStickBits;
    if (answer.outcome == Outcome::Done) {
      invert(made_stick(plan, orders_.argument / kStickBits)[bit / 8], static_cast<unsigned>(bit % 8));
    }
    return answer;
  }

  const CardMemory& memory_;
  std::uint64_t root_;
  Orders& orders_;
};

// Of the hart whose thread this is; the same in each run with the same seed.
bool coin(std::uint64_t seed, unsigned hart) {
  const auto next = [](std::uint64_t state) { return state * 6364136223846793005 + 1442695040888963407; };
  static thread_local std::uint64_t state = next(next(seed) + hart);
  state = next(state);
  return state >> 63 != 0;
}

// What the kernel reads when the hint has been executed; the outcome last.
void answer(Request& request, const Answer& answer) {
  request.operand = answer.operand;
  request.done = answer.done;
  request.address = answer.address;
  std::atomic_ref(request.outcome).store(answer.outcome, std::memory_order_release);
}

}  // namespace

void ComputeArray::greet(unsigned hart, std::uint64_t instruction, std::byte* code) {
  std::uint64_t block = 0;
  std::memcpy(&block, code + wire::array::kHelloAddressAt, sizeof block);
  Hello* const there = reinterpret_cast<Hello*>(code + static_cast<std::int64_t>(block - instruction));
  Hello hello;
  std::memcpy(&hello, there, sizeof hello);
  harts_ = 0;
  if (hello.magic != wire::array::kHelloMagic || hello.version != wire::array::kVersion) return;
  if (hello.harts == 0 || hello.harts > kMaxHarts || instruction < hello.ram_base) return;
  if (hello.orders_at % alignof(Orders) != 0 || hello.move % alignof(Move) != 0) return;
  memory_ = CardMemory(code - (instruction - hello.ram_base), hello.ram_base, hello.ram_bytes);
  dma_.begin(memory_, hello.regions_begin);
  hello_ = hello;
  harts_ = hello.harts;
  greeted_by_ = hart;
  there->answer = wire::array::kVersion;
}

bool ComputeArray::mixed(unsigned hart) const { return mixed_seed_ && coin(*mixed_seed_, hart); }

void ComputeArray::work(unsigned hart) const {
  if (hart >= harts_) return;
  const std::uint64_t local = hello_.hart_local + hart * hello_.hart_stride;
  const auto root = memory_.word(local + hello_.root_at);
  const auto context = memory_.word(local + hello_.context_at);
  const auto arguments = context ? memory_.word(*context + hello_.arguments_at) : std::nullopt;
  if (!root || !arguments) return;
  std::byte* const orders = memory_.at(*context + hello_.orders_at, sizeof(Orders));
  if (orders == nullptr) return;
  const std::uint64_t address = wire::array::request_address(*arguments);
  const auto page = find_page(memory_, *root, address);
  if (!page || !page->writable || page->end - address < sizeof(Request)) return;
  auto& request = *reinterpret_cast<Request*>(page->at(address));
  const RequestServer server(memory_, *root, *reinterpret_cast<Orders*>(orders));
  answer(request, mixed(hart) ? refused() : server.answer(request));
}

void ComputeArray::move(unsigned hart) {
  if (harts_ == 0 || hart != greeted_by_) return;
  std::byte* const place = memory_.at(hello_.move, sizeof(Move));
  if (place != nullptr) dma_.serve(*reinterpret_cast<Move*>(place), mixed(hart));
}

}  // namespace svp::array
