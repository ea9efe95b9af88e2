# The router of Rails with the two addresses at which GitLab signs people in, as Devise and Doorkeeper draw them.
require "action_dispatch"

judge = lambda do |environment|
  password = Rack::Request.new(environment).params.dig("user", "password")
  [200, { "Content-Type" => "text/plain" }, [password ? "judged" : "a form"]]
end

routes = ActionDispatch::Routing::RouteSet.new
routes.draw do
  post "/users/sign_in", to: judge
  post "/oauth/token", to: judge
end
run routes
