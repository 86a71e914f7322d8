// Softmax in one go, while a row is in the nearest cache: attention of few queries, and log-probabilities.
// softmax.py says what each function computes.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lanes.h"

namespace {

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

float dot(const float* x, const float* y, Size count) {
  Floats total = {};
  Size i = 0;
  for (; i + LANES <= count; i += LANES) total += lanes(x + i) * lanes(y + i);
  float rest = 0;
  for (; i < count; i++) rest += x[i] * y[i];
  return sum(total) + rest;
}

}  // namespace

// Places of an array with four dimensions; the last one is dense in q, k, v.
struct Steps {
  Size batch, head, row, column;
};

extern "C" void attend(const float* q, const float* k, const float* v, const uint8_t* seen, float* out,
                       const Steps* steps, const Size* sizes, float scale, int threads) {
  const Size B = sizes[0], H = sizes[1], G = sizes[2], T = sizes[3], S = sizes[4], E = sizes[5], V = sizes[6];
  const Steps of_q = steps[0], of_k = steps[1], of_v = steps[2], of_seen = steps[3];
  #pragma omp parallel num_threads(threads) if (B * H * T * S * E > SMALL)
  {
    std::vector<float> scores(S + LANES), mixed(V);
    #pragma omp for schedule(static)
    for (Size at = 0; at < B * H; at++) {
      const Size b = at / H, h = at % H;
      const float* keys = k + b * of_k.batch + h / G * of_k.head;
      const float* values = v + b * of_v.batch + h / G * of_v.head;
      for (Size t = 0; t < T; t++) {
        const float* query = q + b * of_q.batch + h * of_q.head + t * of_q.row;
        const uint8_t* sees = seen + b * of_seen.batch + h * of_seen.head + t * of_seen.row;
        float most = NOTHING;
        bool blind = true;
        for (Size s = 0; s < S; s++) {
          bool hidden = seen && !sees[s * of_seen.column];
          blind = blind && hidden;
          scores[s] = hidden ? NOTHING : scale * dot(query, keys + s * of_k.row, E);
          most = std::max(most, scores[s]);
        }
        std::fill(mixed.begin(), mixed.end(), 0.f);
        float total = blind ? 1 : exponentials(scores.data(), S, most);
        for (Size s = 0; s < S && !blind; s++) {
          if (seen && !sees[s * of_seen.column]) continue;
          const float* value = values + s * of_v.row;
          for (Size e = 0; e < V; e++) mixed[e] += scores[s] * value[e];
        }
        float* result = out + (at * T + t) * V;
        for (Size e = 0; e < V; e++) result[e] = mixed[e] / total;
      }
    }
  }
}

extern "C" void log_softmax(const float* x, float* out, Size rows, Size columns, int threads) {
  #pragma omp parallel for schedule(static) num_threads(threads) if (rows * columns > SMALL)
  for (Size r = 0; r < rows; r++) {
    const float* row = x + r * columns;
    float most = largest(row, columns, NOTHING, [](float number) { return number; });
    Floats total = {};
    Size i = 0;
    for (; i + LANES <= columns; i += LANES) total += exponential(lanes(row + i) - most);
    float rest = 0;
    for (; i < columns; i++) rest += std::exp(row[i] - most);
    float log_total = std::log(sum(total) + rest);
    for (i = 0; i < columns; i++) out[r * columns + i] = row[i] - most - log_total;
  }
}
