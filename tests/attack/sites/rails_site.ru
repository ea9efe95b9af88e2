# A site on Rails: sign-in as its guides have it. It writes down every password that it compares. A right one begins
# with `right-`.
require 'json'
require 'logger'
require 'rails'
require 'action_controller/railtie'

ATTEMPTS = File.open(ENV.fetch('ATTEMPTS'), 'a').tap { |file| file.sync = true }

class Site < Rails::Application
  config.eager_load = true
  config.consider_all_requests_local = false
  config.secret_key_base = 'a throw-away site' * 4
  config.logger = Logger.new(nil)
  config.hosts.clear
  config.action_controller.allow_forgery_protection = false
  routes.append do
    post '/login', to: 'sessions#create'
    get '/login', to: 'sessions#form'
    match '/any', to: 'sessions#any', via: :all
    post '/api/session', to: 'sessions#token'
    match '/basic', to: 'sessions#basic', via: :all
    get '/home', to: 'sessions#home'
  end
end

class SessionsController < ActionController::Base
  def form = render(plain: 'form')
  def home = render(plain: 'home')

  def create
    return render(plain: 'form') unless params[:pw]
    return render(plain: "#{params[:note]} Login failed") unless right?(params[:login], params[:pw])
    cookies[:SESSION] = 'inside'
    redirect_to '/home'
  end

  def any
    return render(plain: 'form') unless params[:pw]
    back = { error: 1, next: params[:next].to_s }.to_query
    redirect_to right?(params[:login], params[:pw]) ? '/home' : "/any?#{back}"
  end

  def token
    return render(json: { error: 'no password' }, status: 400) unless params[:pw]
    return render(json: { token: 'inside' }) if right?(params[:login], params[:pw])
    render json: { error: 'wrong password' }, status: 401
  end

  def basic
    authenticate_or_request_with_http_basic { |user, password| right?(user, password) }
    render(plain: 'inside') unless performed?
  end

  private

  def right?(user, password)
    ATTEMPTS.write(JSON.generate({ user: user.to_s.scrub, password: password.to_s.scrub }) + "\n")
    password.to_s.start_with?('right-')
  end
end

Site.initialize!
run Site
