// Softmax in one go, while a row is in the nearest cache: attention of few queries, and log-probabilities.
// softmax.py says what the operators at the end compute.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "lanes.h"
#include "tensors.h"

namespace {

constexpr Size BLOCK = 128;  // numbers of which the largest is looked at first
constexpr float NOTHING = -std::numeric_limits<float>::infinity();

// exp(x) for x <= 0, to two units of the last place; what is below e^-87 becomes e^-87, about 1e-38.
// 2^n e^r with x = n ln 2 + r, |r| <= ln 2 / 2, and e^r by its series.
Floats exponential(Floats x) {
  x = x < -87.f ? Floats{} - 87.f : x;
  Wholes n = __builtin_convertvector(x * 1.44269504f - 0.5f, Wholes);
  Floats whole = __builtin_convertvector(n, Floats);
  Floats r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Floats series = 1 + r * (1 + r * (1.f / 2 + r * (1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r * (1.f / 720))))));
  Floats found = (Floats)((Wholes)series + (n << 23));  // n is added to the exponent
  return x == x ? found : x;                            // NaN stays NaN
}

// x becomes exp(x - most); returns the sum. There is room for whole lanes behind the end.
float exponentials(float* x, Size count, float most) {
  std::fill(x + count, x + (count + LANES - 1) / LANES * LANES, NOTHING);
  Floats total = {};
  for (Size i = 0; i < count; i += LANES) total += lanes(x + i) = exponential(lanes(x + i) - most);
  return sum(total);  // what was filled up adds 1e-38 each to at least 1
}

Array attend(const Array& any_q, const Array& any_k, const Array& any_v, const std::optional<Array>& seen,
             const double& exact_scale) {
  std::string shapes = any_q.shape() + ", " + any_k.shape() + " and " + any_v.shape();
  require(any_q.dims() == 4 && any_k.dims() == 4 && any_v.dims() == 4, "shapes that do not fit: " + shapes);
  Array q_ = dense_rows(any_q), k_ = dense_rows(any_k), v_ = dense_rows(any_v);
  const Size B = q_.size(0), H = q_.size(1), T = q_.size(2), E = q_.size(3);
  const Size K = k_.size(1), S = k_.size(2), V = v_.size(3);
  require(k_.size(0) == B && v_.size(0) == B && v_.size(1) == K && v_.size(2) == S && k_.size(3) == E && H % K == 0 &&
              (!seen || (seen->dims() == 4 && spans(*seen, {B, H, T, S}))),
          "shapes that do not fit: " + shapes);
  Array result = Array::made<float>({B, H, T, V});
  const float *q = q_.data<float>(), *k = k_.data<float>(), *v = v_.data<float>();
  const bool* shown = seen ? seen->data<bool>() : nullptr;  // none: all see all
  const Steps of_q = steps_of(q_), of_k = steps_of(k_), of_v = steps_of(v_), of_seen = seen ? steps_of(*seen) : Steps{};
  const Size G = H / K;
  const float scale = float(exact_scale);
  float* out = result.data<float>();
  #pragma omp parallel if (B * H * T * S * E > SMALL)
  {
    std::vector<float> scores(S + LANES), mixed(V);
    #pragma omp for schedule(static)
    for (Size at = 0; at < B * H; at++) {
      const Size b = at / H, h = at % H;
      const float* keys = k + b * of_k.batch + h / G * of_k.head;
      const float* values = v + b * of_v.batch + h / G * of_v.head;
      for (Size t = 0; t < T; t++) {
        const float* query = q + b * of_q.batch + h * of_q.head + t * of_q.row;
        const bool* sees = shown + b * of_seen.batch + h * of_seen.head + t * of_seen.row;
        float most = NOTHING;
        bool blind = true;
        for (Size s = 0; s < S; s++) {
          bool hidden = shown && !sees[s * of_seen.column];
          blind = blind && hidden;
          scores[s] = hidden ? NOTHING : scale * dot(query, keys + s * of_k.row, E);
          most = std::max(most, scores[s]);
        }
        std::fill(mixed.begin(), mixed.end(), 0.f);
        float total = blind ? 1 : exponentials(scores.data(), S, most);
        for (Size s = 0; s < S && !blind; s++) {
          if (shown && !sees[s * of_seen.column]) continue;
          const float* value = values + s * of_v.row;
          for (Size e = 0; e < V; e++) mixed[e] += scores[s] * value[e];
        }
        float* result = out + (at * T + t) * V;
        for (Size e = 0; e < V; e++) result[e] = mixed[e] / total;
      }
    }
  }
  return result;
}

// The logarithm of the sum of exp(x - most).
float log_sum(const float* x, Size count, float most) {
  Floats total = {};
  Size i = 0;
  for (; i + LANES <= count; i += LANES) total += exponential(lanes(x + i) - most);
  float rest = 0;
  for (; i < count; i++) rest += std::exp(x[i] - most);
  return std::log(sum(total) + rest);
}

float most_of(const float* x, Size count) {
  return largest(x, count, NOTHING, [](float number) { return number; });
}

Array log_softmax(const Array& any_x) {
  Array x = any_x.dense<float>(), result = Array::made<float>(x.sizes());
  require(x.dims() == 2, "a matrix is expected, not " + x.shape());
  const Size rows = x.size(0), columns = x.size(1);
  const float* from = x.data<float>();
  float* out = result.data<float>();
  #pragma omp parallel for schedule(static) if (rows * columns > SMALL)
  for (Size r = 0; r < rows; r++) {
    const float* row = from + r * columns;
    float most = most_of(row, columns), log_total = log_sum(row, columns, most);
    for (Size i = 0; i < columns; i++) out[r * columns + i] = row[i] - most - log_total;
  }
  return result;
}

// Of each row, the log-probabilities and places of the `number` largest among its first `within`, in falling order.
Pair most_probable(const Array& any_x, const int64_t& number, const int64_t& within) {
  Array x = any_x.dense<float>();
  require(x.dims() == 2, "a matrix is expected, not " + x.shape());
  const Size rows = x.size(0), columns = x.size(1), n = number, width = within;
  require(0 < n && n <= width && width <= columns,
          std::to_string(n) + " of " + std::to_string(width) + " of " + x.shape());
  Array values = Array::made<float>({rows, n}), places = Array::made<int64_t>({rows, n});
  const float* from = x.data<float>();
  float* value = values.data<float>();
  int64_t* place = places.data<int64_t>();
  const Size blocks = (width + BLOCK - 1) / BLOCK;
  #pragma omp parallel if (rows * columns > SMALL)
  {
    std::vector<float> most(blocks), ordered(blocks);
    #pragma omp for schedule(static)
    for (Size r = 0; r < rows; r++) {
      const float* row = from + r * columns;
      float* best = value + r * n;
      int64_t* at = place + r * n;
      // The n largest stand in blocks whose largest is one of the n largest of these.
      for (Size b = 0; b < blocks; b++) most[b] = most_of(row + b * BLOCK, std::min(BLOCK, width - b * BLOCK));
      std::copy(most.begin(), most.end(), ordered.begin());
      if (n < blocks)
        std::nth_element(ordered.begin(), ordered.begin() + (n - 1), ordered.end(), std::greater<float>());
      const float least = n < blocks ? ordered[n - 1] : NOTHING;
      Size found = 0;
      for (Size b = 0; b < blocks; b++) {
        if (most[b] < least) continue;
        for (Size i = b * BLOCK; i < std::min((b + 1) * BLOCK, width); i++) {
          if (found == n && !(row[i] > best[n - 1])) continue;
          Size to = found < n ? found++ : n - 1;
          for (; to > 0 && row[i] > best[to - 1]; to--) best[to] = best[to - 1], at[to] = at[to - 1];
          best[to] = row[i], at[to] = i;
        }
      }
      float largest = std::max(*std::max_element(most.begin(), most.end()), most_of(row + width, columns - width));
      float log_total = log_sum(row, columns, largest);
      for (Size i = 0; i < n; i++) best[i] -= largest, best[i] -= log_total;
    }
  }
  return {values, places};
}

}  // namespace

extern "C" int32_t register_operators() {
  return registered<attend>("attend") || registered<log_softmax>("log_softmax") ||
         registered<most_probable>("most_probable");
}
