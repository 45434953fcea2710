% Trace-norm multi-task least squares as MALSAR computes it: accelerated proximal gradient with a doubling line search, a loop
% over tasks for every gradient and value, columns of the gradient appended one by one, rows kept as columns, a thin SVD for
% every proximal step. Our own plain text of the published algorithm (Ji & Ye 2009; Zhou, Chen, Ye 2011). Prints the seconds of
% one call.
%   octave-cli --quiet least_trace.m TASKS ROWS FEATURES ITERATIONS PENALTY
1;

function gradient = gradient_at(X, y, W)
  gradient = [];
  for i = 1:numel(X)
    gradient = cat(2, gradient, X{i} * (X{i}' * W(:, i) - y{i}));
  end
end

function value = loss_of(X, y, W)
  value = 0;
  for i = 1:numel(X)
    value = value + 0.5 * norm(y{i} - X{i}' * W(:, i))^2;
  end
end

function [W, trace_norm] = shrunk(V, threshold)
  [R, S, U] = svd(V', 'econ');
  kept = max(diag(S) - threshold, 0);
  W = U * diag(kept) * R';
  trace_norm = sum(kept);
end

sizes = cellfun(@str2num, argv());
[tasks, rows, features, iterations, penalty] = num2cell(sizes){:};
X = cell(tasks, 1); y = cell(tasks, 1);
for i = 1:tasks
  X{i} = randn(features, rows);
  y{i} = sum(X{i}(1:3, :), 1)' + randn(rows, 1);
end
tic;
W = zeros(features, tasks); before = W; t = 1; t_before = 0; gamma = 1; objective = zeros(iterations, 1);
for k = 1:iterations
  Z = W + (t_before - 1) / t * (W - before);
  gradient = gradient_at(X, y, Z);
  value = loss_of(X, y, Z);
  before = W;
  while true
    [W, trace_norm] = shrunk(Z - gradient / gamma, penalty / gamma);
    move = W - Z; loss = loss_of(X, y, W);
    if loss <= value + sum(sum(move .* gradient)) + gamma / 2 * norm(move, 'fro')^2 || norm(move, 'fro') < 1e-10
      break
    end
    gamma = 2 * gamma;
  end
  objective(k) = loss + penalty * trace_norm;
  t_before = t; t = (1 + sqrt(1 + 4 * t^2)) / 2;
end
printf('%.3f\n', toc);
